#include "trainer/detail/loop/feed_pass.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <cstring>
#include <memory>
#include <span>
#include <utility>

#include "io/base/error.h"
#include "trainer/detail/loop/failure.h"
#include "trainer/evaluation_details.h"

namespace millrace::trainer::detail {
namespace {

enum class Vote { kRound, kEnd, kBreak };

bool stop_requested(const FeedPass& pass) {
  return pass.stop.stop_requested() || pass.processes.cluster().stop_requested();
}

Vote vote(const FeedPass& pass, const ReplicaInput& input, SkipLimit& limit, Replica& replica) {
  const auto [read, skipped] = limit.votes();
  std::array<double, 4> votes{input.has_batch() ? 1.0 : 0.0,
                              input.failed() || stop_requested(pass) ? 1.0 : 0.0, read, skipped};
  replica.control().all_reduce(std::span<double>(votes));
  if (limit.is_exceeded(votes[2], votes[3]) || votes[1] > 0.0) return Vote::kBreak;
  const double least =
      pass.feed.drops_uneven() ? static_cast<double>(replica.control().world()) : 1.0;
  return votes[0] >= least ? Vote::kRound : Vote::kEnd;
}

}  // namespace

SkipLimit::SkipLimit(const EpochFeed& feed, Failure& failure, int device, int processes)
    : feed_(feed),
      failure_(failure),
      device_(device),
      processes_(processes),
      policy_(feed.fault_policy()) {}

std::array<double, 2> SkipLimit::votes() const {
  if (device_ != 0) return {};
  const ReadSamples own = feed_.read_samples();
  return {static_cast<double>(own.read), static_cast<double>(own.skipped)};
}

// A process alone is told by its own ledger, with the last fault.
bool SkipLimit::is_exceeded(double read, double skipped) {
  if (processes_ == 1) return false;
  const std::string excess =
      policy_.excess(static_cast<std::uint64_t>(skipped), static_cast<std::uint64_t>(read));
  if (excess.empty()) return false;
  failure_.guard([&] {
    throw Error(
        ErrorCode::kExhausted,
        fmt::format("too many samples are skipped ({}), in {} processes", excess, processes_));
  });
  return true;
}

pipeline::SlotNumbers slot_numbers(const pipeline::Batch& batch, std::int64_t batch_size,
                                   const Topology& topology) {
  if (batch.slots.stride > 0) return batch.slots;
  const std::int64_t size = batch_size > 0 ? batch_size : batch.size;
  return {.first = batch.index * size * topology.processes + topology.process,
          .stride = topology.processes};
}

bool run_pass(const FeedPass& pass,
              const std::function<void(Replica&, const pipeline::Batch*)>& round,
              const std::function<void(Replica&)>& end) {
  Failure failure([&](const std::exception_ptr&) { pass.feed.stop(); });
  const std::stop_callback on_stop(pass.stop, [&] { pass.feed.stop(); });
  bool is_whole = true;
  pass.group.run(pass.feed, [&](Replica& replica) {
    ReplicaInput input(pass.feed, failure, replica.device());
    SkipLimit limit(pass.feed, failure, replica.device(),
                    pass.processes.cluster().topology().processes);
    Vote voted = Vote::kEnd;
    StepClock& clock = replica.clock();  // of a trace alone
    clock.start();
    for (std::int64_t done = 0; pass.max_batches == 0 || done < pass.max_batches; ++done) {
      input.next();
      clock.lap(&StepTimes::wait);
      voted = vote(pass, input, limit, replica);
      clock.lap_collectives();
      if (voted != Vote::kRound) break;
      round(replica, input.has_batch() ? &input.batch() : nullptr);
      clock.lap(&StepTimes::forward);
    }
    if (replica.device() == 0) is_whole = voted != Vote::kBreak;
    if (voted != Vote::kBreak) end(replica);
  });
  if (is_whole) return true;
  if (!pass.processes.any(stop_requested(pass))) pass.processes.throw_any(failure.first());
  return false;
}

namespace {

std::vector<float> gather_records(std::span<const float> records, Collectives& group) {
  std::vector<float> all;
  for (const auto& bytes : group.all_gather_bytes(std::as_bytes(records))) {
    const std::size_t before = all.size();
    all.resize(before + bytes.size() / sizeof(float));
    if (!bytes.empty()) std::memcpy(all.data() + before, bytes.data(), bytes.size());
  }
  return all;
}

/// One replica's, of its own batches.
EvaluationSums own_sums(const EvaluationOutcome& outcome) {
  EvaluationSums own{.replica = outcome.sums,
                     .replica_records = outcome.records,
                     .non_finite = outcome.non_finite};
  own.replica.push_back(outcome.samples);
  return own;
}

/// Sums `sums` over all replicas.
void reduce(EvaluationSums& sums, Collectives& group) {
  sums.all = sums.replica;
  sums.all.push_back(static_cast<double>(sums.non_finite));
  group.all_reduce(std::span<double>(sums.all));
  sums.non_finite = std::llround(sums.all.back());
  sums.all.pop_back();
  sums.all_records = gather_records(sums.replica_records, group);
  for (const auto& bytes : group.all_gather_bytes(std::as_bytes(std::span(sums.replica)))) {
    sums.by_rank.emplace_back(bytes.size() / sizeof(double));
    std::memcpy(sums.by_rank.back().data(), bytes.data(), bytes.size());
  }
}

}  // namespace

std::int64_t EvaluationSums::samples() const { return std::llround(all.back()); }

NamedValues measures_of(const Objective& objective, const std::vector<double>& sums,
                        std::span<const float> records) {
  return objective.finish(
      {.sums = std::span(sums).first(sums.size() - 1), .samples = sums.back(), .records = records});
}

std::string non_finite_text(std::int64_t non_finite, std::int64_t samples,
                            const NamedValues& values) {
  if (non_finite > 0)
    return fmt::format("{} of {} samples have outputs that are not finite", non_finite, samples);
  const double loss = find_value(values, "loss").value_or(0.0);
  return std::isfinite(loss) ? "" : "the loss is not finite";
}

EvaluationSums evaluate_group(const FeedPass& pass, const Objective& objective,
                              const std::function<void(std::int64_t)>& on_step) {
  std::vector<std::unique_ptr<EvaluationStep>> steps;
  for (int device = 0; device < pass.group.size(); ++device)
    steps.push_back(pass.group.replica(device).make_evaluation());
  const auto step_of = [&](const Replica& replica) -> EvaluationStep& {
    return *steps[static_cast<std::size_t>(replica.device())];
  };
  const auto* detailed = dynamic_cast<const DetailedObjective*>(&objective);
  EvaluationSums all;  // the first replica's
  std::int64_t done = 0;
  const bool whole = run_pass(
      pass,
      [&](Replica& replica, const pipeline::Batch* batch) {
        if (batch != nullptr) step_of(replica).add(*batch);
        if (replica.rank() == 0 && on_step) on_step(++done);
      },
      [&](Replica& replica) {
        EvaluationSums own = own_sums(step_of(replica).outcome());
        reduce(own, replica.control());
        if (detailed != nullptr) detailed->end_evaluation(replica.control());
        if (replica.device() == 0) all = std::move(own);
      });
  all.stopped = !whole;
  if (whole) all.skipped = pass.processes.sum(pass.feed.skipped_samples());
  return all;
}

void check_not_empty(Processes& processes, const std::string& what, std::int64_t samples,
                     std::int64_t skipped) {
  if (samples > 0) return;
  const std::string why = skipped > 0 ? ": " + std::to_string(skipped) + " were skipped" : "";
  processes.throw_alike(
      std::make_exception_ptr(Error(ErrorCode::kExhausted, what + " had no samples" + why)));
}

}  // namespace millrace::trainer::detail
