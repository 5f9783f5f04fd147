#include "trainer/loss/detail/embeddings.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <unordered_map>

#include "io/base/check.h"
#include "io/base/error.h"
#include "trainer/collectives.h"

namespace millrace::trainer::detail {
namespace {

/// A rank's embeddings on the wire: whether none of its slots is masked, their samples, their rows.
std::vector<std::byte> packed(const OwnEmbeddings& own, bool is_full) {
  const Embeddings& of = own.of;
  const auto samples = std::as_bytes(std::span(of.samples));
  const auto rows =
      std::as_bytes(std::span(of.rows.data(), static_cast<std::size_t>(of.rows.size())));
  std::vector<std::byte> message = {is_full ? std::byte{1} : std::byte{0}};
  message.insert(message.end(), samples.begin(), samples.end());
  message.insert(message.end(), rows.begin(), rows.end());
  return message;
}

std::size_t row_bytes(const Embeddings& of) {
  return sizeof(std::int64_t) + static_cast<std::size_t>(of.rows.cols()) * sizeof(float);
}

/// Of a message; that of a rank without a sample is empty.
std::size_t rows_in(std::span<const std::byte> message, std::size_t row) {
  if (message.empty()) return 0;
  MILLRACE_CHECK(message.size() % row == 1, "embeddings of another width");
  return message.size() / row;
}

/// Puts a rank's embeddings behind the first `at`.
void unpack(std::span<const std::byte> message, std::size_t at, AllEmbeddings& all) {
  all.is_full = all.is_full && !message.empty() && message[0] != std::byte{0};
  const std::size_t count = rows_in(message, row_bytes(all.of));
  if (count == 0) return;
  const std::size_t of_samples = count * sizeof(std::int64_t);
  const auto width = static_cast<std::size_t>(all.of.rows.cols());
  std::memcpy(all.of.samples.data() + at, message.data() + 1, of_samples);
  std::memcpy(all.of.rows.data() + at * width, message.data() + 1 + of_samples,
              count * width * sizeof(float));
}

}  // namespace

OwnEmbeddings own_embeddings(const LossInput& input, std::size_t parts, Lengths lengths) {
  OwnEmbeddings own;
  for (std::size_t slot = 0; slot < input.valid.size(); ++slot)
    if (input.valid[slot] != 0) own.slots.push_back(slot);
  const std::int64_t width = input.prediction.shape[1];
  const auto part_width = width / static_cast<Eigen::Index>(parts);
  own.of.rows.resize(static_cast<Eigen::Index>(own.slots.size()), width);
  const Eigen::Map<const Matrix> all(input.prediction.data.data(), input.prediction.shape[0],
                                     width);
  for (std::size_t i = 0; i < own.slots.size(); ++i) {
    for (std::size_t part = 0; part < parts; ++part) {
      const auto begin = static_cast<Eigen::Index>(part) * part_width;
      const auto embedding =
          all.row(static_cast<Eigen::Index>(own.slots[i])).segment(begin, part_width);
      auto row = own.of.rows.row(static_cast<Eigen::Index>(i)).segment(begin, part_width);
      own.norms.push_back(embedding.norm());
      if (lengths == Lengths::kOne)
        row = embedding / std::max(own.norms.back(), kLeastNorm);
      else
        row = embedding;
    }
    own.of.samples.push_back(input.target.labels[own.slots[i]]);
  }
  return own;
}

AllEmbeddings gather(const OwnEmbeddings& own, const LossInput& input) {
  const bool is_full = own.slots.size() == input.valid.size();
  if (input.group == nullptr) return {.of = own.of, .is_full = is_full};
  const auto messages = input.group->all_gather_bytes(packed(own, is_full));
  std::vector<std::size_t> ends = {0};  // of the ranks before
  for (const auto& message : messages)
    ends.push_back(ends.back() + rows_in(message, row_bytes(own.of)));
  AllEmbeddings all;
  all.first_own = ends[static_cast<std::size_t>(input.group->rank())];
  all.of.samples.resize(ends.back());
  all.of.rows.resize(static_cast<Eigen::Index>(ends.back()), own.of.rows.cols());
  for (std::size_t rank = 0; rank < messages.size(); ++rank)
    unpack(messages[rank], ends[rank], all);
  return all;
}

std::vector<float> gather(const std::vector<float>& own, Collectives* group) {
  if (group == nullptr) return own;
  std::vector<float> all;
  for (const auto& message : group->all_gather_bytes(std::as_bytes(std::span(own)))) {
    const std::size_t before = all.size();
    all.resize(before + message.size() / sizeof(float));
    if (!message.empty()) std::memcpy(all.data() + before, message.data(), message.size());
  }
  return all;
}

LossSums join(Collectives* group) {
  for (int gathers = 0; group != nullptr && gathers < 2; ++gathers) group->all_gather_bytes({});
  return {};
}

std::vector<float> count_of_sample(const std::vector<std::int64_t>& samples) {
  std::unordered_map<std::int64_t, float> slots;
  for (const std::int64_t sample : samples) ++slots[sample];
  std::vector<float> counts;
  counts.reserve(samples.size());
  for (const std::int64_t sample : samples) counts.push_back(slots[sample]);
  return counts;
}

void check_embeddings(const LossInput& input, std::int64_t parts, const char* loss) {
  const nn::Shape& shape = input.prediction.shape;
  const std::size_t slots = input.valid.size();
  const bool fits =
      shape.size() == 2 && static_cast<std::size_t>(shape[0]) == slots && shape[1] > 0 &&
      shape[1] % parts == 0 && input.target.labels.size() == slots &&
      (input.gradient.empty() || input.gradient.size() == input.prediction.data.size());
  if (fits) return;
  throw Error(ErrorCode::kInvalidArgument, std::string(loss) + " needs embeddings (N, " +
                                               (parts > 1 ? std::to_string(parts) + " F" : "F") +
                                               "), N sample numbers and N flags, got outputs " +
                                               nn::shape_text(shape) + ", " +
                                               std::to_string(input.target.labels.size()) +
                                               " numbers and " + std::to_string(slots) + " flags");
}

void check_comparable(const std::vector<float>& of_sample, const char* loss) {
  const auto slots = static_cast<float>(of_sample.size());
  if (std::ranges::any_of(of_sample, [&](float count) { return count != slots; })) return;
  throw Error(ErrorCode::kInvalidArgument,
              std::string(loss) + ": all of the step's " + std::to_string(of_sample.size()) +
                  " slots are of one sample: there is nothing to tell it from",
              {.stage = "loss"});
}

}  // namespace millrace::trainer::detail
