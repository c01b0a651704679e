//! The execution of a study from its opening to its end, on this machine.

mod common;

use camino::{Utf8Path, Utf8PathBuf};
use common::{loads, study};
use lab::campaign::{CampaignError, Opened, Opening};
use lab::{Campaign, StackFactory, Store};
use study::Study;

struct Place {
    _folder: tempfile::TempDir,
    home: Utf8PathBuf,
}

impl Place {
    fn new() -> Place {
        let folder = tempfile::tempdir().unwrap();
        let home = Utf8Path::from_path(folder.path()).unwrap().join("home");
        std::fs::create_dir(folder.path().join("target")).unwrap();
        Place { home, _folder: folder }
    }

    fn study(&self) -> Study {
        let target = self.home.with_file_name("target");
        study(&format!(
            "stacks = ['dir:{target}']\n[[workload]]\napp = 'large-file'\nset.file_bytes = '64k'\n"
        ))
    }

    /// Opens a campaign; gives it with what was told.
    fn open(&self, study: &Study, resume: bool) -> (Result<Campaign, CampaignError>, Vec<String>) {
        let site = StackFactory::new(&self.home, &self.home.join("images")).unwrap();
        let command_line = vec!["loadline".to_string()];
        let opening = Opening { resume, shard: None, name: None, command_line, on_signal: |_| {} };
        let mut told = Vec::new();
        let mut tell = |opened: Opened<'_>| told.push(format!("{opened:?}"));
        let campaign = Campaign::open(study.clone(), loads(study), site, &opening, &mut tell);
        (campaign, told)
    }
}

#[test]
fn the_latest_unfinished_run_of_the_same_study_is_resumed() {
    let place = Place::new();
    let study = place.study();
    let (first, told) = place.open(&study, true);
    let first = first.unwrap();
    assert_eq!(told, ["NothingToResume"]);
    let mut store = Store::open(place.home.as_std_path()).unwrap();
    let latest = store.begin(&study, &[]).unwrap().id;
    let (campaign, told) = place.open(&study, true);
    let campaign = campaign.unwrap();
    assert_eq!(campaign.run().id, latest);
    assert!(told[0].contains(&format!("Resumes {{ run: \"{latest}\", done: 0, planned: 6 }}")), "{told:?}");
    assert_ne!(first.run().id, latest);
    let other = Study { study: study::Settings { seed: 9, ..study.study.clone() }, ..study };
    assert!(place.open(&other, true).1.contains(&"NothingToResume".to_string()));
    for campaign in [campaign, first] {
        let (_, left) = campaign.close();
        assert!(left.is_none(), "{left:?}");
    }
}

#[test]
fn nothing_is_begun_when_no_stack_can_be_had() {
    let place = Place::new();
    let mut study = place.study();
    study.stacks = vec!["dir:/no/such/folder".parse().unwrap()];
    let (campaign, _) = place.open(&study, false);
    let error = campaign.unwrap_err();
    assert!(matches!(error, CampaignError::Unavailable(_)), "{error}");
    assert!(error.to_string().contains("/no/such/folder"), "{error}");
    assert!(!place.home.join("loadline.db").exists());
}

#[test]
fn what_needs_a_moment_is_estimated_without_the_stacks_that_cannot_be_had() {
    let place = Place::new();
    let mut study = place.study();
    let (campaign, _) = place.open(&study, false);
    let alone = campaign.unwrap().estimate_seconds();
    study.stacks.push("dir:/no/such/folder".parse().unwrap());
    let (campaign, _) = place.open(&study, false);
    assert_eq!(campaign.unwrap().estimate_seconds(), alone);
    assert!(alone > 0.0);
}
