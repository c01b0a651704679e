//! Each planted bug is caught: by P1-P10, or by recovering crash images.

use order::Protocol;
use order::mutation::Mutation;
use order::soak::{Failure, Schedule, soak};
use ssd::mutation::Mutation as Firmware;

fn protocol(mutation: Mutation) -> Protocol {
    match mutation {
        Mutation::CommitBeforeDescriptor
        | Mutation::CommitWithoutFlush
        | Mutation::DataNotWaited
        | Mutation::WrapWithoutCheckpoint => Protocol::Ext4,
        _ => Protocol::OpExt4,
    }
}

fn caught(schedule: impl Fn(u64) -> Schedule) -> Option<Box<Failure>> {
    (0..12_000).find_map(|seed| soak(&schedule(seed)).err())
}

#[test]
fn host_bugs_are_caught() {
    // That fbarrier waits too long loses nothing: see `barriers`.
    let all = Mutation::ALL.into_iter().filter(|m| *m != Mutation::FbarrierWaits);
    let missed: Vec<Mutation> = all
        .filter(|m| {
            let found = caught(|seed| Schedule { mutation: Some(*m), ..Schedule::new(protocol(*m), seed) });
            if let Some(f) = &found {
                println!("{m:?}: {f}");
            }
            found.is_none()
        })
        .collect();
    assert!(missed.is_empty(), "not caught: {missed:?}");
}

#[test]
fn firmware_bugs_are_caught() {
    let all = [
        Firmware::FlushBeforeSuspended,
        Firmware::MapAtIssue,
        Firmware::NoRecovery,
        Firmware::StreamSlotCollision,
        Firmware::BarrierBitDropped,
        Firmware::MinorIgnored,
        Firmware::FlushBeforeJournal,
        Firmware::LateProgramWins,
    ];
    let missed: Vec<Firmware> = all
        .into_iter()
        .filter(|m| {
            let found =
                caught(|seed| Schedule { firmware: Some(*m), ..Schedule::new(Protocol::OpExt4, seed) });
            if let Some(f) = &found {
                println!("{m:?}: {f}");
            }
            found.is_none()
        })
        .collect();
    assert!(missed.is_empty(), "not caught: {missed:?}");
}
