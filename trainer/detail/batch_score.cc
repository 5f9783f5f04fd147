#include "trainer/detail/batch_score.h"

#include <cmath>
#include <vector>

#include "trainer/detail/flat_math.h"

namespace millrace::trainer::detail {
namespace {

/// Marks the slots with a value that is not finite.
void mark_non_finite(std::span<const float> values, std::vector<bool>& marks) {
  if (flat::all_finite(values)) return;
  const std::size_t width = values.size() / marks.size();
  for (std::size_t slot = 0; slot < marks.size(); ++slot)
    if (!flat::all_finite(values.subspan(slot * width, width))) marks[slot] = true;
}

std::int64_t count_non_finite(nn::Plan& plan, const pipeline::Batch& batch) {
  std::vector<bool> marks(static_cast<std::size_t>(batch.size));
  for (std::size_t i = 0; i < plan.num_outputs(); ++i) mark_non_finite(plan.output(i).data, marks);
  std::int64_t count = 0;
  for (std::size_t slot = 0; slot < marks.size(); ++slot)
    count += marks[slot] && batch.valid[slot] != 0 ? 1 : 0;
  return count;
}

}  // namespace

std::int64_t score_batch(Replica& replica, const ScoreRequest& request, std::span<double> sums) {
  replica.backend().score(replica.objective(), request, sums);
  const std::int64_t count = count_non_finite(request.plan, request.batch);
  if (count > 0) sums.front() = std::nan("");
  return count;
}

}  // namespace millrace::trainer::detail
