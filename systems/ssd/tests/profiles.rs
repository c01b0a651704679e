//! Each profile gives the figures that were published for its device.

use ssd::measure::measure;
use ssd::profile::{NAMES, Profile};

#[test]
fn profiles_give_the_published_figures() {
    let mut wrong = Vec::new();
    for name in NAMES {
        let profile = Profile::named(name).unwrap();
        for p in &profile.published {
            let got = measure(&profile, p.metric).unwrap();
            let fine = (got - p.value).abs() <= p.tolerance * p.value.max(1.0);
            println!("{name:15} {:?}: published {} model {got:.3}", p.metric, p.value);
            if !fine {
                wrong.push(format!("{name} {:?}: published {}, model {got:.3}", p.metric, p.value));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
