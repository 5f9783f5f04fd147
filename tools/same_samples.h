// same_samples: whether the processes that write a set together number the same samples. Each one
// writes those whose turn it is by its own count: one that counts others makes gaps and duplicates.
//
// Threads: as Cluster.
#pragma once

#include <span>
#include <string>

#include "trainer/cluster.h"
#include "trainer/setting.h"

namespace millrace::tools {

/// Compares what each process found out: counts and digests, as settings. A collective. Throws, on
/// every process: Corrupt, with what differs in the first process that has other samples than
/// process 0, and `advice`: what is left, and how to go on.
void check_same_samples(trainer::Cluster& cluster, std::span<const trainer::Setting> own,
                        const std::string& advice);

/// "SHA-256 1a2b3c...", as the value of a setting.
std::string hash_text(const std::string& hex);

}  // namespace millrace::tools
