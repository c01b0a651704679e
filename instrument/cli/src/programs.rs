//! Programs that workloads start by `system`: listed, and refused unless the user allows them. A workload may come from
//! anywhere, and loadline is often run as root.

use lab::load::ScriptProgram;

use crate::console::bad_input;

/// Who allowed programs to be started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Permission {
    /// Nobody.
    Missing,
    /// `--allow-system` on the command line.
    Option,
    /// `allow_system = true` of the study.
    Study,
}

/// Says what would be started, each line once; that it is allowed on standard error, or as an error that it is not.
pub fn check_permission<'s>(
    started: impl IntoIterator<Item = &'s ScriptProgram>,
    permission: Permission,
) -> anyhow::Result<()> {
    let listed = list(started);
    if listed.is_empty() {
        return Ok(());
    }
    let by = match permission {
        Permission::Option => "--allow-system",
        Permission::Study => "`allow_system = true` of the study",
        Permission::Missing => {
            return Err(bad_input(format!(
                "this starts programs by `system`, with all your rights, root's too:\n{listed}\
                 Nothing was run. Read these lines first; to allow them add --allow-system, or to a study \
                 `allow_system = true` under [study]"
            )));
        }
    };
    host::note::write(
        format_args!("loadline: programs are started by `system`, as {by} allows:\n{listed}"),
        "",
    );
    Ok(())
}

/// One indented line for each program, each once: place and command.
pub fn list<'s>(started: impl IntoIterator<Item = &'s ScriptProgram>) -> String {
    let mut lines: Vec<String> = Vec::new();
    for one in started {
        let line = format!("  {}: {}\n", one.place, wml::command_line(&one.command));
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    lines.concat()
}
