// The newest checkpoint of a run's processes, where their hosts share no file system: the run may
// have been started with process 0 on another host than before.
//
//   fetch_newest_checkpoint(cluster, "run/checkpoints", log);
//   find_newest_checkpoint("run/checkpoints", log);   // on process 0: what any host has
//
// Threads: one at a time.
#pragma once

#include <string>

#include "io/base/log.h"
#include "trainer/cluster.h"

namespace millrace::trainer {

/// Looks into `folder` on each host. If another one has a checkpoint of more steps than process 0's
/// host, it is copied there, with a line in `log`; an older one of its name is replaced. A
/// collective. Requires: a local folder, to which nobody writes. Throws: Io.
void fetch_newest_checkpoint(Cluster& cluster, const std::string& folder, const Log& log);

}  // namespace millrace::trainer
