#include "trainer/detail/feed_pass.h"

#include <array>
#include <span>

#include "trainer/detail/failure.h"
#include "trainer/detail/replica_input.h"

namespace millrace::trainer::detail {
namespace {

enum class Vote { kRound, kEnd, kBreak };

bool stop_requested(const FeedPass& pass) {
  return pass.stop.stop_requested() || pass.processes.cluster().stop_requested();
}

Vote vote(const FeedPass& pass, const ReplicaInput& input, Replica& replica) {
  std::array<double, 2> votes{input.has_batch() ? 1.0 : 0.0,
                              input.failed() || stop_requested(pass) ? 1.0 : 0.0};
  replica.control().all_reduce(std::span<double>(votes));
  if (votes[1] > 0.0) return Vote::kBreak;
  const double least =
      pass.feed.drops_uneven() ? static_cast<double>(replica.control().world()) : 1.0;
  return votes[0] >= least ? Vote::kRound : Vote::kEnd;
}

}  // namespace

bool run_pass(const FeedPass& pass,
              const std::function<void(Replica&, const pipeline::Batch*)>& round,
              const std::function<void(Replica&)>& end) {
  Failure failure([&](const std::exception_ptr&) { pass.feed.stop(); });
  const std::stop_callback on_stop(pass.stop, [&] { pass.feed.stop(); });
  bool is_whole = true;
  pass.group.run(pass.feed, [&](Replica& replica) {
    ReplicaInput input(pass.feed, failure, replica.device());
    Vote voted = Vote::kEnd;
    for (std::int64_t done = 0; pass.max_batches == 0 || done < pass.max_batches; ++done) {
      input.next();
      voted = vote(pass, input, replica);
      if (voted != Vote::kRound) break;
      round(replica, input.has_batch() ? &input.batch() : nullptr);
    }
    if (replica.device() == 0) is_whole = voted != Vote::kBreak;
    if (voted != Vote::kBreak) end(replica);
  });
  if (is_whole) return true;
  if (!pass.processes.any(stop_requested(pass))) pass.processes.throw_any(failure.first());
  return false;
}

}  // namespace millrace::trainer::detail
