use super::*;

fn entries(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

// A file appears when it is complete, and not before.
#[test]
fn file_appears_only_when_complete() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.json");
    let mut file = AtomicFile::create(&path, Access::Public).unwrap();
    file.write_all(b"{}").unwrap();
    file.flush().unwrap();
    assert!(!path.exists());
    file.commit().unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"{}");
    assert_eq!(entries(folder.path()), ["report.json"]);
}

// A file that is dropped before its commit keeps the old file.
#[test]
fn dropped_file_keeps_old_content() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state");
    write(&path, b"old", Access::Private).unwrap();
    let mut file = AtomicFile::create(&path, Access::Private).unwrap();
    file.write_all(b"new").unwrap();
    drop(file);
    assert_eq!(fs::read(&path).unwrap(), b"old");
    write(&path, b"new", Access::Private).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"new");
    assert_eq!(entries(folder.path()), ["state"]);
}

// Only the owner can access private files and folders.
#[cfg(unix)]
#[test]
fn private_files_are_owner_only() {
    use std::os::unix::fs::PermissionsExt;
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let folder = tempfile::tempdir().unwrap();
    let secret = folder.path().join("secret");
    let public = folder.path().join("public");
    write(&secret, b"key", Access::Private).unwrap();
    write(&public, b"report", Access::Public).unwrap();
    assert_eq!(mode(&secret), 0o600);
    let plain = folder.path().join("plain");
    File::create(&plain).unwrap();
    assert_eq!(mode(&public), mode(&plain), "a public file has the mode any program gives");
    let checkpoint = folder.path().join("checkpoint");
    fs::create_dir(&checkpoint).unwrap();
    create_private_folder(&checkpoint).unwrap();
    assert_eq!(mode(&checkpoint), 0o700);
    create_private_folder(&folder.path().join("fresh")).unwrap();
    assert_eq!(mode(&folder.path().join("fresh")), 0o700);
}

// An output folder is created with its parents, or reused if it is empty.
// An output folder at a file, or below one, is an error.
#[test]
fn a_folder_that_cannot_be_written_is_named() {
    // A folder of procfs, which even root cannot write to.
    let path = Path::new("/proc/damper-out");
    if !Path::new("/proc/self").exists() {
        damper_testing::skip("proc", "there is no /proc");
        return;
    }
    for error in [write(path, b"x", Access::Public), create_private_folder(path)] {
        let message = error.unwrap_err().to_string();
        assert!(message.contains("/proc/damper-out") && !message.contains('\n'), "{message}");
    }
}

// A missing parent, or a path that is a folder, is an error and leaves no files.
#[test]
fn missing_or_folder_path_is_error() {
    let folder = tempfile::tempdir().unwrap();
    let message = write(&folder.path().join("no/report"), b"x", Access::Public).unwrap_err().to_string();
    assert!(message.contains("no/report") && message.contains("make its folder first"), "{message}");
    let taken = folder.path().join("taken");
    fs::create_dir(&taken).unwrap();
    let message = write(&taken, b"x", Access::Public).unwrap_err().to_string();
    assert!(message.contains("taken") && !message.contains('\n'), "{message}");
    assert_eq!(entries(folder.path()), ["taken"]);
}

/// Runs this test again in a separate mount namespace, with a file system of 64 KiB on a folder of that namespace.
#[cfg(target_os = "linux")]
#[test]
fn full_disk_error_names_file() {
    const SMALL_DISK: &str = "DAMPER_TEST_SMALL_DISK";
    if let Some(folder) = std::env::var_os(SMALL_DISK) {
        let path = Path::new(&folder).join("model.onnx");
        write(&path, b"old", Access::Public).unwrap();
        for len in [60_000, 70_000, 1 << 20] {
            let message = match write(&path, &vec![7; len], Access::Public) {
                Ok(()) => continue,
                Err(error) => error.to_string(),
            };
            assert!(message.contains("model.onnx") && message.contains("free some space"), "{message}");
        }
        let message = write(&path, &vec![7; 1 << 20], Access::Public).unwrap_err().to_string();
        assert!(!message.contains('\n'), "{message}");
        assert_eq!(entries(Path::new(&folder)), ["model.onnx"]);
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mount = "mount -t tmpfs -o size=64k,nr_inodes=16 none \"$1\"";
    let unshare = |script: &str| {
        std::process::Command::new("unshare")
            .args(["--user", "--map-root-user", "--mount", "sh", "-c", script, "sh"])
            .arg(folder.path())
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", damper_testing::test_name(full_disk_error_names_file)])
            .env(SMALL_DISK, folder.path())
            .output()
    };
    if !unshare(mount).is_ok_and(|output| output.status.success()) {
        damper_testing::skip("mount", "no mount namespace can be made here");
        return;
    }
    let output = unshare(&format!("{mount} && shift && exec \"$@\"")).unwrap();
    damper_testing::assert_one_passed(&output);
}
