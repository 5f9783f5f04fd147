#include "trainer/mpi/detail/unanswered.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <sstream>
#include <system_error>

namespace millrace::trainer::detail {
namespace {

std::string text_of(in_addr address) {
  std::array<char, INET_ADDRSTRLEN> text{};
  ::inet_ntop(AF_INET, &address, text.data(), text.size());
  return text.data();
}

in_addr ipv4_of(const sockaddr& address) {
  sockaddr_in known{};
  std::memcpy(&known, &address, sizeof known);
  return known.sin_addr;
}

OwnAddress own_address(const ifaddrs& one) {
  const in_addr address = ipv4_of(*one.ifa_addr);
  const std::uint32_t mask = one.ifa_netmask == nullptr ? ~0U : ipv4_of(*one.ifa_netmask).s_addr;
  return {.interface = one.ifa_name,
          .address = text_of(address),
          .network = fmt::format("{}/{}", text_of({address.s_addr & mask}), std::popcount(mask))};
}

/// The kernel's numbers of this process's sockets.
std::set<std::string> own_sockets() {
  constexpr std::string_view kSocket = "socket:[";
  std::set<std::string> numbers;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", ignored)) {
    const std::string target = std::filesystem::read_symlink(entry.path(), ignored).string();
    if (target.starts_with(kSocket))
      numbers.insert(target.substr(kSocket.size(), target.size() - kSocket.size() - 1));
  }
  return numbers;
}

/// "0103630A:0400", as proc(5) has it, in the machine's own order of bytes.
std::string endpoint_of(const std::string& hex) {
  std::uint32_t address = 0;
  std::uint32_t port = 0;
  char colon = 0;
  std::istringstream text(hex);
  text >> std::hex >> address >> colon >> port;
  return fmt::format("{}:{}", text_of({address}), port);
}

}  // namespace

std::vector<OwnAddress> own_addresses() {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, &::freeifaddrs);
  std::vector<OwnAddress> all;
  for (const ifaddrs* one = list; one != nullptr; one = one->ifa_next) {
    const bool is_used = (one->ifa_flags & IFF_UP) != 0 && (one->ifa_flags & IFF_LOOPBACK) == 0;
    if (is_used && one->ifa_addr != nullptr && one->ifa_addr->sa_family == AF_INET)
      all.push_back(own_address(*one));
  }
  return all;
}

std::vector<std::string> unanswered() {
  constexpr std::string_view kSynSent = "02";
  const std::set<std::string> own = own_sockets();
  std::vector<std::string> all;
  std::ifstream table("/proc/self/net/tcp");
  std::string line;
  std::getline(table, line);  // the head
  while (std::getline(table, line)) {
    std::istringstream fields(line);
    std::string number;
    std::string local;
    std::string remote;
    std::string state;
    std::string skipped;
    std::string socket;
    fields >> number >> local >> remote >> state;
    for (int i = 0; i < 5; ++i) fields >> skipped;  // queues, timer, retransmissions, user, probes
    if (fields >> socket && state == kSynSent && own.contains(socket))
      all.push_back(endpoint_of(remote));
  }
  return all;
}

}  // namespace millrace::trainer::detail
