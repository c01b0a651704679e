//! Tables and indexes (clause 1.3). Foreign keys are left out, since MyRocks has none; HISTORY has a key of our own,
//! by which a ledger finds its rows.

/// The tables, in the order in which they are filled.
pub const TABLES: [&str; 9] =
    ["item", "warehouse", "stock", "district", "customer", "history", "orders", "new_order", "order_line"];

/// Makes the tables, in the dialect of [`crate::Engine`].
pub(super) const CREATE: [&str; 9] = [
    "CREATE TABLE item (i_id INT NOT NULL, i_im_id INT NOT NULL, i_name VARCHAR(24) NOT NULL, i_price INT NOT NULL, \
     i_data VARCHAR(50) NOT NULL, PRIMARY KEY (i_id)){table}",
    "CREATE TABLE warehouse (w_id INT NOT NULL, w_name VARCHAR(10) NOT NULL, w_street_1 VARCHAR(20) NOT NULL, \
     w_street_2 VARCHAR(20) NOT NULL, w_city VARCHAR(20) NOT NULL, w_state CHAR(2) NOT NULL, w_zip CHAR(9) NOT NULL, \
     w_tax INT NOT NULL, w_ytd BIGINT NOT NULL, PRIMARY KEY (w_id)){table}",
    "CREATE TABLE stock (s_w_id INT NOT NULL, s_i_id INT NOT NULL, s_quantity INT NOT NULL, s_dist_01 CHAR(24) NOT NULL, \
     s_dist_02 CHAR(24) NOT NULL, s_dist_03 CHAR(24) NOT NULL, s_dist_04 CHAR(24) NOT NULL, s_dist_05 CHAR(24) NOT NULL, \
     s_dist_06 CHAR(24) NOT NULL, s_dist_07 CHAR(24) NOT NULL, s_dist_08 CHAR(24) NOT NULL, s_dist_09 CHAR(24) NOT NULL, \
     s_dist_10 CHAR(24) NOT NULL, s_ytd BIGINT NOT NULL, s_order_cnt INT NOT NULL, s_remote_cnt INT NOT NULL, \
     s_data VARCHAR(50) NOT NULL, PRIMARY KEY (s_w_id, s_i_id)){table}",
    "CREATE TABLE district (d_w_id INT NOT NULL, d_id INT NOT NULL, d_name VARCHAR(10) NOT NULL, \
     d_street_1 VARCHAR(20) NOT NULL, d_street_2 VARCHAR(20) NOT NULL, d_city VARCHAR(20) NOT NULL, d_state CHAR(2) NOT NULL, \
     d_zip CHAR(9) NOT NULL, d_tax INT NOT NULL, d_ytd BIGINT NOT NULL, d_next_o_id INT NOT NULL, \
     PRIMARY KEY (d_w_id, d_id)){table}",
    "CREATE TABLE customer (c_w_id INT NOT NULL, c_d_id INT NOT NULL, c_id INT NOT NULL, c_first VARCHAR(16) NOT NULL, \
     c_middle CHAR(2) NOT NULL, c_last VARCHAR(16) NOT NULL, c_street_1 VARCHAR(20) NOT NULL, c_street_2 VARCHAR(20) NOT NULL, \
     c_city VARCHAR(20) NOT NULL, c_state CHAR(2) NOT NULL, c_zip CHAR(9) NOT NULL, c_phone CHAR(16) NOT NULL, \
     c_since {now} NOT NULL, c_credit CHAR(2) NOT NULL, c_credit_lim BIGINT NOT NULL, c_discount INT NOT NULL, \
     c_balance BIGINT NOT NULL, c_ytd_payment BIGINT NOT NULL, c_payment_cnt INT NOT NULL, c_delivery_cnt INT NOT NULL, \
     c_data VARCHAR(500) NOT NULL, PRIMARY KEY (c_w_id, c_d_id, c_id)){table}",
    "CREATE TABLE history (h_id BIGINT NOT NULL, h_c_id INT NOT NULL, h_c_d_id INT NOT NULL, h_c_w_id INT NOT NULL, \
     h_d_id INT NOT NULL, h_w_id INT NOT NULL, h_date {now} NOT NULL, h_amount BIGINT NOT NULL, h_data VARCHAR(24) NOT NULL, \
     PRIMARY KEY (h_id)){table}",
    "CREATE TABLE orders (o_w_id INT NOT NULL, o_d_id INT NOT NULL, o_id INT NOT NULL, o_c_id INT NOT NULL, \
     o_entry_d {now} NOT NULL, o_carrier_id INT, o_ol_cnt INT NOT NULL, o_all_local INT NOT NULL, \
     PRIMARY KEY (o_w_id, o_d_id, o_id)){table}",
    "CREATE TABLE new_order (no_w_id INT NOT NULL, no_d_id INT NOT NULL, no_o_id INT NOT NULL, \
     PRIMARY KEY (no_w_id, no_d_id, no_o_id)){table}",
    "CREATE TABLE order_line (ol_w_id INT NOT NULL, ol_d_id INT NOT NULL, ol_o_id INT NOT NULL, ol_number INT NOT NULL, \
     ol_i_id INT NOT NULL, ol_supply_w_id INT NOT NULL, ol_delivery_d {now}, ol_quantity INT NOT NULL, \
     ol_amount BIGINT NOT NULL, ol_dist_info CHAR(24) NOT NULL, PRIMARY KEY (ol_w_id, ol_d_id, ol_o_id, ol_number)){table}",
];

/// Made when the tables are full.
pub(super) const INDEXES: [&str; 2] = [
    "CREATE INDEX customer_by_name ON customer (c_w_id, c_d_id, c_last, c_first)",
    "CREATE INDEX orders_of_customer ON orders (o_w_id, o_d_id, o_c_id, o_id)",
];
