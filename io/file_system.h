// What holds a file: a disk of this machine, or a server that looks like one.
//
// Threads: free functions, callable from any thread.
#pragma once

#include <string>

namespace millrace::io {

/// Whether the file at `path` lies in a file system whose every access may go over a network: NFS,
/// SMB, Lustre, Ceph, GPFS, BeeGFS, AFS, 9P, or one in user space (FUSE). False if nobody says.
bool is_in_network_file_system(const std::string& path);

}  // namespace millrace::io
