#include "trainer/predict.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "trainer/detail/collectives/processes.h"
#include "trainer/detail/loop/checkpoint_replicas.h"
#include "trainer/detail/loop/feed_pass.h"
#include "trainer/same_data.h"

namespace millrace::trainer {
namespace {

/// The outputs for a replica's batch, packed to be sent to rank 0.
struct Packed {
  std::vector<std::byte> keys;  ///< of the valid slots, each with a NUL: no file's name has one
  std::vector<float> values;    ///< one sample after the other, of each all outputs
  std::vector<std::int64_t> carried;  ///< likewise, of each all carried fields
  std::vector<std::int64_t> slots;    ///< of each, its slot in the epoch; 0: not known
};

/// Values of a sample in each output and each carried field.
struct Widths {
  std::vector<std::size_t> outputs;
  std::vector<std::size_t> carried;
};

Widths widths_of(const std::vector<nn::OutputView>& outputs, const pipeline::Batch& batch,
                 const std::vector<std::string>& carried) {
  const auto size = static_cast<std::size_t>(batch.size);
  Widths widths;
  for (const nn::OutputView& output : outputs) widths.outputs.push_back(output.data.size() / size);
  for (const std::string& name : carried)
    widths.carried.push_back(batch.field(name).as<std::int64_t>().size() / size);
  return widths;
}

/// Appends one slot's `width` values.
template <typename T>
void append(std::span<const T> values, std::size_t slot, std::size_t width, std::vector<T>& to) {
  const auto own = values.subspan(slot * width, width);
  to.insert(to.end(), own.begin(), own.end());
}

Packed pack(const pipeline::Batch& batch, const std::vector<nn::OutputView>& outputs,
            const Widths& widths, const std::vector<std::string>& carried) {
  Packed packed;
  for (std::size_t slot = 0; slot < batch.keys.size(); ++slot) {
    if (batch.valid[slot] == 0) continue;
    const auto key =
        std::as_bytes(std::span(batch.keys[slot].c_str(), batch.keys[slot].size() + 1));
    packed.keys.insert(packed.keys.end(), key.begin(), key.end());
    packed.slots.push_back(batch.slots.first +
                           static_cast<std::int64_t>(slot) * batch.slots.stride);
    for (std::size_t i = 0; i < outputs.size(); ++i)
      append<float>(outputs[i].data, slot, widths.outputs[i], packed.values);
    for (std::size_t i = 0; i < carried.size(); ++i)
      append<std::int64_t>(batch.field(carried[i]).as<std::int64_t>(), slot, widths.carried[i],
                           packed.carried);
  }
  return packed;
}

template <typename T>
std::vector<T> as_values(std::span<const std::byte> bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

/// Removes the first `width` values of `rest` and returns them.
template <typename T>
std::span<const T> take_values(std::span<const T>& rest, std::size_t width) {
  const auto taken = rest.first(width);
  rest = rest.subspan(width);
  return taken;
}

/// The outputs' widths, then those of the carried fields.
std::vector<std::byte> packed_widths(const Widths& widths) {
  std::vector<std::size_t> all = widths.outputs;
  all.insert(all.end(), widths.carried.begin(), widths.carried.end());
  const auto bytes = std::as_bytes(std::span(all));
  return {bytes.begin(), bytes.end()};
}

Widths unpacked_widths(std::span<const std::byte> bytes, std::size_t num_carried) {
  std::vector<std::size_t> all = as_values<std::size_t>(bytes);
  if (all.empty()) return {};
  const auto carried = all.end() - static_cast<std::ptrdiff_t>(num_carried);
  return {.outputs = {all.begin(), carried}, .carried = {carried, all.end()}};
}

/// What a replica sent, as bytes.
struct Received {
  std::span<const std::byte> keys;
  std::span<const std::byte> values;
  std::span<const std::byte> carried;
};

/// One replica's samples, one after the other.
class Unpacker {
 public:
  Unpacker(const Received& received, Widths widths)
      : widths_(std::move(widths)),
        values_(as_values<float>(received.values)),
        carried_(as_values<std::int64_t>(received.carried)),
        names_(reinterpret_cast<const char*>(received.keys.data()), received.keys.size()),
        rest_(values_),
        rest_carried_(carried_) {}

  /// Lifetime: the unpacker's.
  Prediction next() {
    Prediction one{.key = names_.substr(0, names_.find('\0')), .outputs = {}};
    names_.remove_prefix(one.key.size() + 1);
    for (const std::size_t width : widths_.outputs)
      one.outputs.push_back(take_values(rest_, width));
    for (const std::size_t width : widths_.carried)
      one.carried.push_back(take_values(rest_carried_, width));
    return one;
  }

 private:
  Widths widths_;
  std::vector<float> values_;
  std::vector<std::int64_t> carried_;
  std::string_view names_;
  std::span<const float> rest_;
  std::span<const std::int64_t> rest_carried_;
};

/// The ranks whose samples follow each other in the order of the slots.
std::vector<std::size_t> ranks_by_slot(const std::vector<std::vector<std::byte>>& slots) {
  std::vector<std::pair<std::int64_t, std::size_t>> order;
  for (std::size_t rank = 0; rank < slots.size(); ++rank)
    for (const std::int64_t slot : as_values<std::int64_t>(slots[rank]))
      order.emplace_back(slot, rank);
  std::ranges::stable_sort(order, {}, &std::pair<std::int64_t, std::size_t>::first);
  std::vector<std::size_t> ranks;
  ranks.reserve(order.size());
  for (const auto& [slot, rank] : order) ranks.push_back(rank);
  return ranks;
}

/// Computes a replica's batch, if it has one; without one it sends nothing.
Packed pack(const pipeline::Batch* batch, const EvalOptions& options, PredictionStep& step,
            Widths& widths) {
  if (batch == nullptr) return {};
  const std::vector<nn::OutputView> outputs = step.outputs(*batch);
  widths = widths_of(outputs, *batch, options.carried);
  return pack(*batch, outputs, widths, options.carried);
}

/// A round of one batch per replica; returns the samples that rank 0 passed on.
std::int64_t predict_round(const pipeline::Batch* batch, const EvalOptions& options,
                           PredictionStep& step, Collectives& control, const PredictionSink& each) {
  Widths widths;
  const Packed own = pack(batch, options, step, widths);
  // Rank 0 may have no batch of its own to take them from.
  const auto all_widths = control.all_gather_bytes(packed_widths(widths));
  const auto keys = control.all_gather_bytes(own.keys);
  const auto values = control.all_gather_bytes(std::as_bytes(std::span(own.values)));
  const auto carried = control.all_gather_bytes(std::as_bytes(std::span(own.carried)));
  const auto slots = control.all_gather_bytes(std::as_bytes(std::span(own.slots)));
  if (control.rank() != 0) return 0;
  std::vector<std::unique_ptr<Unpacker>> unpackers;
  for (std::size_t rank = 0; rank < keys.size(); ++rank)
    unpackers.push_back(
        std::make_unique<Unpacker>(Received{keys[rank], values[rank], carried[rank]},
                                   unpacked_widths(all_widths[rank], options.carried.size())));
  const std::vector<std::size_t> ranks = ranks_by_slot(slots);
  for (const std::size_t rank : ranks) each(unpackers[rank]->next());
  return static_cast<std::int64_t>(ranks.size());
}

std::int64_t predict_in(detail::Processes& processes, const EvalInput& input,
                        const EvalOptions& options, const PredictionSink& each) {
  if (!processes.is_alone()) check_same_data(processes.cluster(), "samples", input.feed.identity());
  detail::CheckpointReplicas replicas(processes, input, options);
  input.feed.plan_epochs(1);
  input.feed.set_landing(replicas.group.backend().landing(input.objective));
  const auto feed = input.feed.open(0, nullptr);
  std::vector<std::unique_ptr<PredictionStep>> steps;
  for (int device = 0; device < replicas.group.size(); ++device)
    steps.push_back(replicas.group.replica(device).make_prediction());
  std::int64_t samples = 0;
  const bool whole = detail::run_pass(
      {.group = replicas.group, .processes = processes, .feed = *feed, .stop = options.stop},
      [&](detail::Replica& replica, const pipeline::Batch* batch) {
        PredictionStep& step = *steps[static_cast<std::size_t>(replica.device())];
        const std::int64_t passed_on = predict_round(batch, options, step, replica.control(), each);
        if (replica.rank() == 0) samples += passed_on;
      },
      [](detail::Replica&) {});
  if (!whole) processes.throw_stopped("the prediction was stopped");
  return processes.sum(samples);
}

}  // namespace

std::int64_t predict(const EvalInput& input, const EvalOptions& options,
                     const PredictionSink& each) {
  detail::Processes processes(input.cluster, input.devices.size());
  return processes.guard([&] { return predict_in(processes, input, options, each); });
}

}  // namespace millrace::trainer
