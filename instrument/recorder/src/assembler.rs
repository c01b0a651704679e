//! Instructions of the kernel's BPF machine, with labels. The encoding is that of the kernel's
//! Documentation/bpf/standardization/instruction-set.rst. Programs are assembled here, so that no compiler for BPF is needed.

use std::collections::HashMap;

/// A register: R0 holds results, R1 to R5 arguments (lost in calls), R6 to R9 are kept, R10 is the frame's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Register(u8);

/// The result of a call.
pub const R0: Register = Register(0);
/// First argument; at the begin of a program its context.
pub const R1: Register = Register(1);
/// Second argument.
pub const R2: Register = Register(2);
/// Third argument.
pub const R3: Register = Register(3);
/// Fourth argument.
pub const R4: Register = Register(4);
/// Kept in calls.
pub const R6: Register = Register(6);
/// Kept in calls.
pub const R7: Register = Register(7);
/// Kept in calls.
pub const R8: Register = Register(8);
/// Kept in calls.
pub const R9: Register = Register(9);
/// The end of the frame of 512 bytes, which lies below.
pub const FRAME: Register = Register(10);

/// Bytes of a load or store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Width {
    /// 32 bits.
    Word = 0x00,
    /// 64 bits.
    Double = 0x18,
}

/// When a jump is taken: the register compared with a number, both without sign.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// They are equal.
    Equal = 0x10,
    /// The register is greater.
    Greater = 0x20,
    /// They differ.
    Differs = 0x50,
}

/// A place in a program, for jumps to it.
pub type Label = &'static str;

const MOVE_IMMEDIATE: u8 = 0xb7;
const MOVE: u8 = 0xbf;
const ADD_IMMEDIATE: u8 = 0x07;
const ADD: u8 = 0x0f;
const AND_IMMEDIATE: u8 = 0x57;
const SHIFT_LEFT_IMMEDIATE: u8 = 0x67;
const SHIFT_RIGHT_IMMEDIATE: u8 = 0x77;
const LOAD: u8 = 0x61;
const STORE: u8 = 0x63;
const STORE_IMMEDIATE: u8 = 0x62;
const ATOMIC_ADD_DOUBLE: u8 = 0xdb;
const LOAD_MAP: u8 = 0x18;
/// The source register of a [`LOAD_MAP`] whose number is a map's descriptor.
const IS_MAP_DESCRIPTOR: u8 = 1;
const JUMP: u8 = 0x05;
const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;

/// Assembles one program.
#[derive(Debug, Default)]
pub struct Assembler {
    code: Vec<[u8; 8]>,
    labels: HashMap<Label, usize>,
    jumps: Vec<(usize, Label)>,
}

impl Assembler {
    /// An empty program.
    pub fn new() -> Self {
        Assembler::default()
    }

    fn push(&mut self, opcode: u8, to: Register, from: u8, offset: i16, number: i32) -> &mut Self {
        let (offset, number) = (offset.to_le_bytes(), number.to_le_bytes());
        let registers = to.0 | from << 4;
        self.code.push([opcode, registers, offset[0], offset[1], number[0], number[1], number[2], number[3]]);
        self
    }

    /// `to = from`
    pub fn copy(&mut self, to: Register, from: Register) -> &mut Self {
        self.push(MOVE, to, from.0, 0, 0)
    }

    /// `to = number`
    pub fn set(&mut self, to: Register, number: i32) -> &mut Self {
        self.push(MOVE_IMMEDIATE, to, 0, 0, number)
    }

    /// `to += number`
    pub fn add(&mut self, to: Register, number: i32) -> &mut Self {
        self.push(ADD_IMMEDIATE, to, 0, 0, number)
    }

    /// `to += from`
    pub fn add_register(&mut self, to: Register, from: Register) -> &mut Self {
        self.push(ADD, to, from.0, 0, 0)
    }

    /// `to &= number`
    pub fn and(&mut self, to: Register, number: i32) -> &mut Self {
        self.push(AND_IMMEDIATE, to, 0, 0, number)
    }

    /// `to <<= bits`
    pub fn shift_left(&mut self, to: Register, bits: i32) -> &mut Self {
        self.push(SHIFT_LEFT_IMMEDIATE, to, 0, 0, bits)
    }

    /// `to >>= bits`
    pub fn shift_right(&mut self, to: Register, bits: i32) -> &mut Self {
        self.push(SHIFT_RIGHT_IMMEDIATE, to, 0, 0, bits)
    }

    /// `to = *(from + offset)`
    pub fn load(&mut self, width: Width, to: Register, from: Register, offset: i16) -> &mut Self {
        self.push(LOAD | width as u8, to, from.0, offset, 0)
    }

    /// `*(to + offset) = from`
    pub fn store(&mut self, width: Width, to: Register, offset: i16, from: Register) -> &mut Self {
        self.push(STORE | width as u8, to, from.0, offset, 0)
    }

    /// `*(to + offset) = number`
    pub fn store_number(&mut self, width: Width, to: Register, offset: i16, number: i32) -> &mut Self {
        self.push(STORE_IMMEDIATE | width as u8, to, 0, offset, number)
    }

    /// `*(to + offset) += from`, 64 bits, atomically
    pub fn atomic_add(&mut self, to: Register, offset: i16, from: Register) -> &mut Self {
        self.push(ATOMIC_ADD_DOUBLE, to, from.0, offset, 0)
    }

    /// `to = the map of this descriptor`
    pub fn map(&mut self, to: Register, descriptor: i32) -> &mut Self {
        self.push(LOAD_MAP, to, IS_MAP_DESCRIPTOR, 0, descriptor);
        self.push(0, R0, 0, 0, 0)
    }

    /// Jumps to a label when a comparison of a register with a number holds.
    pub fn jump_if(&mut self, register: Register, when: When, number: i32, label: Label) -> &mut Self {
        self.jumps.push((self.code.len(), label));
        self.push(JUMP | when as u8, register, 0, 0, number)
    }

    /// Names the place of the next instruction.
    pub fn label(&mut self, label: Label) -> &mut Self {
        self.labels.insert(label, self.code.len());
        self
    }

    /// Calls a function of the kernel by its number in `enum bpf_func_id`.
    pub fn call(&mut self, function: i32) -> &mut Self {
        self.push(CALL, R0, 0, 0, function)
    }

    /// Returns 0.
    pub fn exit(&mut self) -> &mut Self {
        self.set(R0, 0).push(EXIT, R0, 0, 0, 0)
    }

    /// The instructions.
    ///
    /// # Panics
    /// On a jump to a label that does not stand, which is a mistake in the program.
    pub fn finish(&mut self) -> Vec<[u8; 8]> {
        for (at, label) in &self.jumps {
            let to = self.labels.get(label).unwrap_or_else(|| panic!("no label {label}"));
            let distance = (*to as i64 - *at as i64 - 1) as i16;
            self.code[*at][2..4].copy_from_slice(&distance.to_le_bytes());
        }
        std::mem::take(&mut self.code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Encodings that the kernel's page on the instruction set shows, or that follow from it.
    #[test]
    fn instructions_are_encoded_as_the_kernel_reads_them() {
        let code = Assembler::new()
            .set(R1, -2)
            .load(Width::Double, R6, R1, 8)
            .store(Width::Word, FRAME, -4, R6)
            .jump_if(R0, When::Equal, 0, "end")
            .map(R1, 7)
            .label("end")
            .exit()
            .finish();
        let expected: [[u8; 8]; 8] = [
            [0xb7, 0x01, 0, 0, 0xfe, 0xff, 0xff, 0xff],
            [0x79, 0x16, 8, 0, 0, 0, 0, 0],
            [0x63, 0x6a, 0xfc, 0xff, 0, 0, 0, 0],
            [0x15, 0x00, 2, 0, 0, 0, 0, 0],
            [0x18, 0x11, 0, 0, 7, 0, 0, 0],
            [0; 8],
            [0xb7, 0, 0, 0, 0, 0, 0, 0],
            [0x95, 0, 0, 0, 0, 0, 0, 0],
        ];
        assert_eq!(code, expected);
    }
}
