//! The daemon in its container image and pod: an unprivileged user, a read-only root file system and a manifest in
//! a ConfigMap. Also checks that the deployment files agree.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use duebox_harness::{Daemon, duebox_binary, eventually};

use crate::support::fixture::{Fixture, topic};
use crate::support::handler::Handler;
use crate::support::log::settled_as;
use crate::support::producer::push_many;

/// The user in the image.
const USER: &str = "65532";
/// The writable folder of the image.
const CACHE: &str = "/var/cache/duebox";

fn file(name: &str) -> String {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let path = root.parent().unwrap().join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// A volume as the kubelet writes it: a folder for each version, and an atomically swapped link.
fn publish(volume: &Path, version: u32, manifest: &str) {
    let folder = volume.join(format!("..v{version}"));
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("duebox.toml"), manifest).unwrap();
    let next = volume.join("..data_tmp");
    symlink(format!("..v{version}"), &next).unwrap();
    fs::rename(&next, volume.join("..data")).unwrap();
    let seen = volume.join("duebox.toml");
    if !seen.is_symlink() {
        symlink("..data/duebox.toml", seen).unwrap();
    }
}

/// Whether this machine allows a private mount namespace and another user.
fn can_be_confined() -> bool {
    let words = ["--mount", "setpriv", "--reuid", USER, "--clear-groups", "true"];
    Command::new("unshare").args(words).output().is_ok_and(|output| output.status.success())
}

#[test]
fn it_runs_unprivileged_on_a_read_only_root() {
    if !can_be_confined() {
        println!("this machine gives us no file system of our own: not tested");
        return;
    }
    let fixture = Fixture::new();
    // The user of the daemon must be able to read the folder of the test.
    let open = Command::new("chmod").arg("a+rx").arg(fixture.path("")).status().unwrap();
    assert!(open.success());
    fixture.write("one.wasm", Handler::logs("one").wasm());
    fixture.write("two.wasm", Handler::logs("two").wasm());
    fs::create_dir(fixture.path("volume")).unwrap();
    let at = |name: &str| fixture.path(name).display().to_string();
    let manifest = |module: &str| {
        let redis = format!("[redis]\nurl = \"{}\"\n", fixture.redis.url());
        redis + &topic("work", &at(module), "")
    };
    publish(&fixture.path("volume"), 1, &manifest("one.wasm"));
    let binary = fixture.path("duebox");
    fs::copy(duebox_binary(), &binary).unwrap();
    // The root of the image is read-only, except for the cache.
    let script = format!(
        "mount -t tmpfs tmpfs /var/cache && mkdir -m 0700 {CACHE} && chown {USER}:{USER} {CACHE} \
         && mount -o remount,bind,ro / && mount --bind /tmp /tmp && mount -o remount,bind,ro /tmp \
         && ! touch /written 2>/dev/null \
         && exec setpriv --reuid {USER} --regid {USER} --clear-groups --no-new-privs --bounding-set=-all \
            {} run --manifest {}",
        binary.display(),
        fixture.path("volume/duebox.toml").display()
    );
    let mut daemon = Daemon::start_with(&fixture.path("volume/duebox.toml"), |command| {
        let mut inside = Command::new("unshare");
        inside.args(["--mount", "sh", "-c", &script]);
        inside.env("DUEBOX_LOG_FORMAT", "json").env("DUEBOX_LISTEN", "127.0.0.1:0");
        inside.env("XDG_CACHE_HOME", "/var/cache").env_remove("DUEBOX_REDIS_URL");
        inside.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        *command = inside;
    });
    daemon.wait_for_line("ready", |line| line.message() == "ready");
    let status = fs::read_to_string(format!("/proc/{}/status", daemon.pid())).unwrap();
    let is_user = |line: &str| line.starts_with("Uid:") && line.contains(USER);
    assert!(status.lines().any(is_user), "{status}");
    let cached = format!("/proc/{}/root{CACHE}", daemon.pid());
    eventually("what was compiled is kept", || fs::read_dir(&cached).unwrap().next().is_some());
    push_jobs(&fixture, 3);
    eventually("they are done", || daemon.count(|line| settled_as(line, "done")) == 3);

    publish(&fixture.path("volume"), 2, &manifest("two.wasm"));
    daemon.wait_for_line("the other module", |line| line.message().starts_with("a new module"));
    push_jobs(&fixture, 3);
    eventually("they are done", || daemon.count(|line| settled_as(line, "done")) == 6);
    assert!(daemon.terminate().success());
}

fn push_jobs(fixture: &Fixture, count: usize) {
    // The command line has its own manifest, because that of the pod is behind the link.
    let text = fs::read_to_string(fixture.path("volume/duebox.toml")).unwrap();
    fixture.write("duebox.toml", text);
    push_many(fixture, "work", count);
}

#[test]
fn the_image_and_the_pod_agree() {
    let image = file("Dockerfile");
    let pod = file("examples/sidecar/k8s/shop.yaml");
    let compose = file("examples/sidecar/compose.yaml");
    let ignored = file(".dockerignore");
    assert!(
        image.contains(&format!("USER {USER}:{USER}"))
            && pod.contains(&format!("runAsUser: {USER}"))
    );
    assert!(
        image.contains("DUEBOX_MANIFEST=/etc/duebox/duebox.toml")
            && pod.contains("mountPath: /etc/duebox")
    );
    for kept in
        ["readOnlyRootFilesystem: true", "allowPrivilegeEscalation: false", "drop: [\"ALL\"]"]
    {
        assert!(pod.contains(kept), "the pod lost {kept}");
    }
    for kept in ["read_only: true", "no-new-privileges:true", "stop_grace_period"] {
        assert!(compose.contains(kept), "compose lost {kept}");
    }
    // The image has no shell, so commands are lists.
    for line in image
        .lines()
        .filter(|line| line.trim_start().starts_with("CMD") || line.starts_with("ENTRYPOINT"))
    {
        assert!(line.contains('['), "{line} needs a shell");
    }
    // The build must copy every member of the workspace.
    let workspace = file("Cargo.toml");
    let members = workspace.lines().find_map(|line| line.strip_prefix("members = ")).unwrap();
    let members: Vec<String> = serde_json::from_str(members).unwrap();
    for member in members {
        assert!(
            !ignored.lines().any(|line| line.trim_end_matches('/') == member),
            "{member} is left out"
        );
    }
}

#[test]
fn the_manifests_of_the_examples_are_valid() {
    let fixture = Fixture::new();
    let map = file("examples/sidecar/k8s/config.yaml");
    let (_, text) = map.split_once("duebox.toml: |\n").unwrap();
    let in_pod: String = text
        .lines()
        .map(|line| format!("{}\n", line.strip_prefix("    ").unwrap_or(line)))
        .collect();
    let beside = file("examples/sidecar/config/duebox.toml");
    let handlers =
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("handlers/build");
    for (name, text) in [("pod.toml", in_pod), ("compose.toml", beside)] {
        let text = text.replace("/opt/handlers/", &format!("{}/", handlers.display()));
        fixture.write(name, text);
        let output = Command::new(duebox_binary())
            .args(["check", "--manifest", name])
            .current_dir(fixture.path(""))
            .env("REDIS_URL", "redis://shop-redis:6379/0")
            .env("HANDLERS", &handlers)
            .output()
            .unwrap();
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    }
}
