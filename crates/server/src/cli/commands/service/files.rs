//! The files with which systemd, launchd and the Windows task scheduler keep `stile serve` running.
//!
//! The unit of systemd was checked with `systemd-analyze`. The other two files were written from
//! documentation and never tried.

use crate::cli::clients::Platform;

/// What is kept running.
pub(super) struct ServicePlan {
    /// The program and its arguments.
    pub(super) command: Vec<String>,
    /// The folders in which the service may change files.
    pub(super) writable: Vec<String>,
}

/// The name of the service for systemd and the task scheduler.
pub(super) const NAME: &str = "stile";
/// The name of the service for launchd, and of its file.
pub(super) const LABEL: &str = "dev.stile.serve";

/// Returns the service file of a platform.
pub(super) fn file(platform: Platform, plan: &ServicePlan) -> String {
    match platform {
        Platform::Linux => systemd(plan),
        Platform::MacOs => launchd(plan),
        Platform::Windows => task(plan),
    }
}

/// A unit for the service manager of a user.
///
/// Every line of the last block takes something away from the service. Lines that only the system's
/// manager can apply, such as `CapabilityBoundingSet`, would keep a user's service from starting.
fn systemd(ServicePlan { command, writable }: &ServicePlan) -> String {
    let words: Vec<String> = command.iter().map(|word| systemd_word(word, "$$")).collect();
    // A path is not searched for variables, so that `$` stays.
    let paths: Vec<String> = writable.iter().map(|path| systemd_word(path, "$")).collect();
    format!(
        "\
[Unit]
Description=Stile, which lets AI agents into a folder, one authorized step at a time
Documentation=man:stile(1)

[Service]
Type=notify
NotifyAccess=main
ExecStart={}
Restart=on-failure
RestartSec=2
WatchdogSec=60
TimeoutStopSec=30

UMask=0077
NoNewPrivileges=yes
ProtectSystem=strict
ProtectHome=read-only
ReadWritePaths={}
PrivateTmp=yes
ProtectControlGroups=yes
ProtectKernelTunables=yes
LockPersonality=yes
MemoryDenyWriteExecute=yes
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallErrorNumber=EPERM

[Install]
WantedBy=default.target
",
        words.join(" "),
        paths.join(" ")
    )
}

/// Quotes a word of a unit. `%` begins a specifier there, and `$` a variable in a command.
///
/// *Source*: systemd.service(5), Command lines; systemd.syntax(7), Quoting.
fn systemd_word(word: &str, dollar: &str) -> String {
    let escaped = word
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
        .replace('%', "%%")
        .replace('$', dollar);
    format!("\"{escaped}\"")
}

/// *Source*: launchd.plist(5).
fn launchd(ServicePlan { command, .. }: &ServicePlan) -> String {
    let words: String =
        command.iter().map(|word| format!("    <string>{}</string>\n", xml_text(word))).collect();
    format!(
        "\
<?xml version=\"1.0\" encoding=\"UTF-8\"?>
<!DOCTYPE plist PUBLIC \"-//Apple//DTD PLIST 1.0//EN\" \"http://www.apple.com/DTDs/PropertyList-1.0.dtd\">
<!-- Nobody has tried this file yet. -->
<plist version=\"1.0\">
<dict>
  <key>Label</key>
  <string>{LABEL}</string>
  <key>ProgramArguments</key>
  <array>
{words}  </array>
  <key>RunAtLoad</key>
  <true/>
  <key>KeepAlive</key>
  <dict>
    <key>SuccessfulExit</key>
    <false/>
  </dict>
  <key>Umask</key>
  <integer>63</integer>
  <key>ProcessType</key>
  <string>Background</string>
</dict>
</plist>
"
    )
}

/// *Source*: Task Scheduler Schema, `Task` element.
fn task(ServicePlan { command, .. }: &ServicePlan) -> String {
    let (program, arguments) =
        command.split_first().map_or(("", &[][..]), |(program, rest)| (program.as_str(), rest));
    let arguments: Vec<String> = arguments.iter().map(|word| windows_word(word)).collect();
    format!(
        "\
<?xml version=\"1.0\"?>
<!-- Nobody has tried this file yet. -->
<Task version=\"1.2\" xmlns=\"http://schemas.microsoft.com/windows/2004/02/mit/task\">
  <Triggers>
    <LogonTrigger><Enabled>true</Enabled></LogonTrigger>
  </Triggers>
  <Settings>
    <MultipleInstancesPolicy>IgnoreNew</MultipleInstancesPolicy>
    <DisallowStartIfOnBatteries>false</DisallowStartIfOnBatteries>
    <StopIfGoingOnBatteries>false</StopIfGoingOnBatteries>
    <ExecutionTimeLimit>PT0S</ExecutionTimeLimit>
    <RestartOnFailure><Interval>PT1M</Interval><Count>999</Count></RestartOnFailure>
  </Settings>
  <Actions>
    <Exec>
      <Command>{}</Command>
      <Arguments>{}</Arguments>
    </Exec>
  </Actions>
</Task>
",
        xml_text(program),
        xml_text(&arguments.join(" "))
    )
}

/// Quotes an argument as programs on Windows read a command line.
fn windows_word(word: &str) -> String {
    if !word.is_empty() && !word.contains([' ', '\t', '"']) {
        return word.to_owned();
    }
    let (mut quoted, mut backslashes) = ("\"".to_owned(), 0);
    for c in word.chars() {
        match c {
            '\\' => backslashes += 1,
            '"' => {
                quoted += &"\\".repeat(2 * backslashes + 1);
                backslashes = 0;
                quoted.push(c);
                continue;
            }
            _ => {
                quoted += &"\\".repeat(backslashes);
                backslashes = 0;
                quoted.push(c);
            }
        }
    }
    quoted + &"\\".repeat(2 * backslashes) + "\""
}

fn xml_text(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> ServicePlan {
        let words = ["/usr/bin/stile", "serve", "/home/ann/my 50% \"notes\" $x", "--state", "/s"];
        ServicePlan {
            command: words.map(str::to_owned).to_vec(),
            writable: vec![words[2].to_owned(), "/s".to_owned()],
        }
    }

    #[test]
    fn each_platform_has_a_service_file() {
        insta::assert_snapshot!("systemd", file(Platform::Linux, &plan()));
        insta::assert_snapshot!("launchd", file(Platform::MacOs, &plan()));
        insta::assert_snapshot!("task", file(Platform::Windows, &plan()));
        assert_eq!(windows_word("a\\ \"b\\"), "\"a\\ \\\"b\\\\\"");
    }

    /// The checker of systemd accepts the unit. `verify` looks for the program and the folders.
    #[cfg(target_os = "linux")]
    #[test]
    fn systemd_accepts_the_unit() {
        let folder = tempfile::tempdir().unwrap();
        let unit = folder.path().join("stile-check.service");
        let plan = ServicePlan {
            command: vec!["/bin/true".to_owned(), "a 100% $odd \"name\"".to_owned()],
            writable: vec!["/tmp".to_owned()],
        };
        std::fs::write(&unit, file(Platform::Linux, &plan)).unwrap();
        let mut verify = std::process::Command::new("systemd-analyze");
        let Ok(verified) = verify.args(["verify", "--man=no"]).arg(&unit).output() else {
            return eprintln!("skipped: this machine has no systemd-analyze");
        };
        let said = String::from_utf8_lossy(&verified.stderr);
        let about_us: Vec<&str> =
            said.lines().filter(|line| line.contains("stile-check.service")).collect();
        assert!(about_us.is_empty() && verified.status.success(), "{said}");
    }
}
