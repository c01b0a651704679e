//! A file system on an emulated SSD of its own: where a slower device is planted.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, bail};

use super::program::Home;

/// Its model: what an fsync costs there is nearly all the time of a load of fsyncs.
const PROFILE: &str = "slow(5ms,500MB/s)";
const SIZE: &str = "512M";

/// An emulated SSD with ext4 on it, mounted in the home; goes when it is dropped.
pub struct Device<'h> {
    home: &'h Home<'h>,
    name: String,
    mounted: Option<PathBuf>,
}

impl<'h> Device<'h> {
    /// Attaches one whose modelled times are multiplied by `scale`, makes ext4 on it, mounts it at `name` in the home.
    pub fn mounted(home: &'h Home<'h>, name: &str, scale: f64) -> anyhow::Result<Device<'h>> {
        let scale = scale.to_string();
        let words =
            ["ssd", "attach", "--profile", PROFILE, "--size", SIZE, "--name", name, "--time-scale", &scale];
        let node = home.run(&words)?.trim().to_string();
        // from here on it is detached whatever happens
        let mut device = Device { home, name: name.into(), mounted: None };
        let place = home.place(name)?;
        tool(Command::new("mkfs.ext4").args(["-q", "-F", &node]))?;
        tool(Command::new("mount").args(["-t", "ext4", &node]).arg(&place))?;
        device.mounted = Some(place);
        Ok(device)
    }
}

impl Drop for Device<'_> {
    fn drop(&mut self) {
        let gone = self.mounted.as_ref().map_or(Ok(()), |place| tool(Command::new("umount").arg(place)));
        let gone = gone.and_then(|()| self.home.run(&["ssd", "detach", &self.name]).map(drop));
        if let Err(why) = gone {
            eprintln!("the device {} is left: {why:#}; `loadline ssd detach {0}` ends it", self.name);
        }
    }
}

fn tool(command: &mut Command) -> anyhow::Result<()> {
    let said = format!("{command:?}");
    let output = command.output().with_context(|| format!("{said} cannot be started"))?;
    if !output.status.success() {
        bail!("{said}: {}: {}", output.status, String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}
