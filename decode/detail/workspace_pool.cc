#include "decode/detail/workspace_pool.h"

namespace millrace::decode::detail {
namespace {

// One huge picture must not keep its memory for the rest of the run.
constexpr std::size_t kMaxKeptBytes = 32 << 20;

}  // namespace

std::size_t Workspace::num_bytes() const {
  return source.codec.pixels.capacity() + source.converted.capacity() + source.oriented.capacity() +
         source.kept.capacity() + between[0].capacity() + between[1].capacity();
}

WorkspacePool::Lease WorkspacePool::acquire() {
  {
    const MutexLock lock(mutex_);
    if (!free_.empty()) {
      auto workspace = std::move(free_.back());
      free_.pop_back();
      return {*this, std::move(workspace)};
    }
  }
  return {*this, std::make_unique<Workspace>()};
}

void WorkspacePool::give_back(std::unique_ptr<Workspace> workspace) noexcept {
  if (workspace->num_bytes() > kMaxKeptBytes) return;
  try {
    const MutexLock lock(mutex_);
    free_.push_back(std::move(workspace));
  } catch (const std::bad_alloc&) {
    // The workspace is freed instead of kept.
  }
}

}  // namespace millrace::decode::detail
