// What keeps this process from reaching the others, as its machine knows it: addresses that have
// not answered, and the networks that it could use.
//
// Threads: free functions, callable from any thread.
#pragma once

#include <string>
#include <vector>

namespace millrace::trainer::detail {

/// An IPv4 address of this machine, without loopback's.
struct OwnAddress {
  std::string interface = {};  ///< "eth0"
  std::string address = {};    ///< "10.0.0.5"
  std::string network = {};    ///< "10.0.0.0/24"
};

std::vector<OwnAddress> own_addresses();

/// What this process has asked for a connection and got no answer from yet: "10.0.0.5:1024".
std::vector<std::string> unanswered();

}  // namespace millrace::trainer::detail
