#include "trainer/predict.h"

#include <cstring>
#include <string>

#include "io/base/error.h"
#include "trainer/detail/loaded_group.h"

namespace millrace::trainer {
namespace {

/// What a replica's batch gave, packed for the way to rank 0.
struct Packed {
  std::vector<std::byte> keys;  ///< of the valid slots, each with a NUL: no file's name has one
  std::vector<float> values;    ///< one sample after the other, of each all outputs
};

/// Values of one sample in each output.
std::vector<std::size_t> output_sizes(nn::Plan& plan, std::int64_t batch_size) {
  std::vector<std::size_t> sizes;
  for (std::size_t i = 0; i < plan.num_outputs(); ++i)
    sizes.push_back(plan.output(i).data.size() / static_cast<std::size_t>(batch_size));
  return sizes;
}

Packed pack(const pipeline::Batch& batch, nn::Plan& plan, const std::vector<std::size_t>& sizes) {
  Packed packed;
  for (std::size_t slot = 0; slot < batch.keys.size(); ++slot) {
    if (batch.valid[slot] == 0) continue;
    const auto key =
        std::as_bytes(std::span(batch.keys[slot].c_str(), batch.keys[slot].size() + 1));
    packed.keys.insert(packed.keys.end(), key.begin(), key.end());
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      const auto own = plan.output(i).data.subspan(slot * sizes[i], sizes[i]);
      packed.values.insert(packed.values.end(), own.begin(), own.end());
    }
  }
  return packed;
}

/// Gives one replica's samples to the sink; returns how many there were.
std::int64_t unpack(std::span<const std::byte> keys, std::span<const std::byte> bytes,
                    const std::vector<std::size_t>& sizes, const PredictionSink& each) {
  std::vector<float> values(bytes.size() / sizeof(float));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  std::string_view names(reinterpret_cast<const char*>(keys.data()), keys.size());
  std::span<const float> rest(values);
  std::int64_t samples = 0;
  for (; !names.empty(); ++samples) {
    Prediction one{.key = names.substr(0, names.find('\0')), .outputs = {}};
    names.remove_prefix(one.key.size() + 1);
    for (const std::size_t size : sizes) {
      one.outputs.push_back(rest.first(size));
      rest = rest.subspan(size);
    }
    each(one);
  }
  return samples;
}

/// Rounds of one batch a replica, until the feed ends; the samples that rank 0 gave away.
std::int64_t predict_replica(EpochFeed& feed, const std::stop_token& stop, detail::Replica& replica,
                             const PredictionSink& each) {
  std::int64_t samples = 0;
  for (pipeline::Batch batch; feed.next(replica.rank(), batch);) {
    if (stop.stop_requested()) throw Error(ErrorCode::kCancelled, "the prediction was stopped");
    nn::Plan& plan = replica.plan_for(batch);
    plan.forward(replica.inputs_of(batch), nn::Mode::kEvaluate);
    const auto sizes = output_sizes(plan, batch.size);
    const Packed own = pack(batch, plan, sizes);
    const auto keys = replica.control().gather(own.keys);
    const auto values = replica.control().gather(std::as_bytes(std::span(own.values)));
    if (replica.rank() != 0) continue;
    for (std::size_t rank = 0; rank < keys.size(); ++rank)
      samples += unpack(keys[rank], values[rank], sizes, each);
  }
  return samples;
}

}  // namespace

std::int64_t predict(const EvalInput& input, const EvalOptions& options,
                     const PredictionSink& each) {
  detail::LoadedGroup group(input, options);
  input.feed.plan_epochs(1);
  const auto feed = input.feed.open(0, nullptr);
  const std::stop_callback on_stop(options.stop, [&] { feed->stop(); });
  std::int64_t samples = 0;
  group.replicas.run(*feed, [&](detail::Replica& replica) {
    const std::int64_t own = predict_replica(*feed, options.stop, replica, each);
    if (replica.rank() == 0) samples = own;
  });
  return samples;
}

}  // namespace millrace::trainer
