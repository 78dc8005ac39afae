//! Detection of folders in RAM.

use std::fs;
use std::path::Path;

/// Returns true if files in `folder` take RAM, as in a tmpfs. False if this is unknown.
pub(in crate::cli) fn is_in_memory(folder: &Path) -> bool {
    let (Ok(folder), Ok(mounts)) = (folder.canonicalize(), fs::read_to_string("/proc/self/mounts")) else {
        return false;
    };
    matches!(file_system(&folder, &mounts), Some("tmpfs" | "ramfs"))
}

/// Returns the file system of `folder`, from the lines of Linux: a device, its mount point, its type, and more.
fn file_system<'a>(folder: &Path, mounts: &'a str) -> Option<&'a str> {
    let of_line = |line: &'a str| {
        let mut fields = line.split(' ').skip(1);
        // A space is written as an octal code.
        let (place, kind) = (fields.next()?.replace("\\040", " "), fields.next()?);
        folder.starts_with(&place).then_some((place.len(), kind))
    };
    // The last mount at a mount point is on top.
    mounts.lines().filter_map(of_line).max_by_key(|(len, _)| *len).map(|(_, kind)| kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_mount_has_the_folder() {
        let mounts = "/dev/vda / ext4 rw 0 0\ntmpfs /tmp tmpfs rw 0 0\n/dev/vdb /tmp/on\\040disk xfs rw 0 0\ntmpfs /data tmpfs rw 0 0\n\
                      /dev/vdc /data ext4 rw 0 0\n";
        for (folder, kind) in [
            ("/home/a", "ext4"),
            ("/tmp", "tmpfs"),
            ("/tmp/a/b", "tmpfs"),
            ("/tmpfiles", "ext4"),
            ("/tmp/on disk/a", "xfs"),
            ("/data/a", "ext4"),
        ] {
            assert_eq!(file_system(Path::new(folder), mounts), Some(kind), "{folder}");
        }
        assert_eq!(file_system(Path::new("/a"), ""), None);
    }
}
