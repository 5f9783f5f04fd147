#include "io/file_system.h"

#include <sys/vfs.h>

#include <algorithm>
#include <array>
#include <cstdint>

namespace millrace::io {
namespace {

// statfs(2) and the systems' own headers.
constexpr std::array<std::uint32_t, 11> kNetworkMagic = {
    0x00006969,  // NFS
    0x0000517B,  // SMB
    0xFF534D42,  // CIFS
    0xFE534D42,  // SMB 2
    0x0BD00BD0,  // Lustre
    0x00C36400,  // Ceph
    0x47504653,  // GPFS
    0x19830326,  // BeeGFS
    0x5346414F,  // AFS
    0x01021997,  // 9P
    0x65735546,  // FUSE
};

}  // namespace

bool is_in_network_file_system(const std::string& path) {
  struct statfs status {};
  if (::statfs(path.c_str(), &status) != 0) return false;
  return std::ranges::find(kNetworkMagic, static_cast<std::uint32_t>(status.f_type)) !=
         kNetworkMagic.end();
}

}  // namespace millrace::io
