// WorkspacePool: reusable scratch for as many decodes as run at once.
//
// Threads: acquire() may be called, and a Lease destroyed, on any thread.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "decode/detail/image_source.h"
#include "decode/detail/stage_runner.h"
#include "decode/detail/transform_list.h"
#include "io/base/thread_annotations.h"

namespace millrace::decode::detail {

struct Workspace {
  SourceWorkspace source;
  StageRunner runner;
  std::array<std::vector<std::uint8_t>, 2> between;  ///< pictures between stages, alternating
  std::vector<std::uint8_t> picture;                 ///< whole, for changes of levels
  std::vector<std::uint8_t> planes;
  TransformList::Draws draws;

  std::size_t num_bytes() const;
};

class WorkspacePool {
 public:
  class Lease {
   public:
    Lease(WorkspacePool& pool, std::unique_ptr<Workspace> workspace)
        : pool_(pool), workspace_(std::move(workspace)) {}
    ~Lease() { pool_.give_back(std::move(workspace_)); }
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    Workspace& operator*() const { return *workspace_; }

   private:
    WorkspacePool& pool_;
    std::unique_ptr<Workspace> workspace_;
  };

  Lease acquire();

 private:
  void give_back(std::unique_ptr<Workspace> workspace) noexcept;

  Mutex mutex_;
  std::vector<std::unique_ptr<Workspace>> free_ MILLRACE_GUARDED_BY(mutex_);
};

}  // namespace millrace::decode::detail
