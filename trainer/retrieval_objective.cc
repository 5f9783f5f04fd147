#include "trainer/retrieval_objective.h"

#include <Eigen/Core>
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>

#include "trainer/hlo/score_program.h"

namespace millrace::trainer {
namespace {

constexpr std::array<const char*, 4> kRecalls = {"image_to_text_r1", "image_to_text_r5",
                                                 "text_to_image_r1", "text_to_image_r5"};

// A record: how many values its two embeddings have, its sample's number in four parts of 16 bits,
// which a float holds exactly, and the values.
constexpr std::size_t kNumberParts = 4;
constexpr std::size_t kNumberBits = 16;
constexpr std::size_t kHead = 1 + kNumberParts;

void add_number(std::int64_t number, std::vector<float>& records) {
  for (std::size_t i = 0; i < kNumberParts; ++i)
    records.push_back(static_cast<float>(static_cast<std::uint64_t>(number) >> kNumberBits * i &
                                         std::numeric_limits<std::uint16_t>::max()));
}

std::uint64_t number_of(std::span<const float> record) {
  std::uint64_t number = 0;
  for (std::size_t i = 0; i < kNumberParts; ++i)
    number |= static_cast<std::uint64_t>(record[1 + i]) << kNumberBits * i;
  return number;
}

using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Index = Eigen::Index;

/// In an order of the samples' own, so that every sum is the same on any layout of devices.
std::vector<std::span<const float>> sorted_records(std::span<const float> records) {
  std::vector<std::span<const float>> all;
  for (std::size_t at = 0; at < records.size();) {
    const std::size_t size = kHead + static_cast<std::size_t>(records[at]);
    all.push_back(records.subspan(at, size));
    at += size;
  }
  // By their bits, which NaNs have, too.
  const auto bits = [](float value) { return std::bit_cast<std::uint32_t>(value); };
  std::ranges::sort(all, [&](auto a, auto b) {
    return std::ranges::lexicographical_compare(a, b, {}, bits, bits);
  });
  return all;
}

/// Embeddings of length 1, and which sample each is of.
struct Embedded {
  std::vector<std::uint64_t> numbers;
  std::array<Matrix, 2> towers;
};

Embedded read_embeddings(std::span<const float> records) {
  const auto all = sorted_records(records);
  const auto count = static_cast<Index>(all.size());
  const auto width = static_cast<Index>((all.front().size() - kHead) / 2);
  Embedded found;
  for (Matrix& tower : found.towers) tower.resize(count, width);
  for (Index i = 0; i < count; ++i) {
    const std::span<const float> record = all[static_cast<std::size_t>(i)];
    found.numbers.push_back(number_of(record));
    const float* values = record.data() + kHead;
    for (Matrix& tower : found.towers) {
      tower.row(i) = Eigen::Map<const Eigen::RowVectorXf>(values, width).normalized();
      values += width;
    }
  }
  return found;
}

/// Among the nearest one, and among the nearest five.
struct Hits {
  double one = 0;
  double five = 0;
};

/// Of one sample's cosines to all of the other tower.
void count_hit(std::span<const float> cosines, const std::vector<std::uint64_t>& numbers,
               std::uint64_t own, Hits& hits) {
  float best = -std::numeric_limits<float>::infinity();
  for (std::size_t j = 0; j < cosines.size(); ++j)
    if (numbers[j] == own) best = std::max(best, cosines[j]);
  std::size_t nearer = 0;
  for (std::size_t j = 0; j < cosines.size(); ++j)
    if (!(cosines[j] < best) && numbers[j] != own) ++nearer;
  hits.one += nearer < 1 ? 1 : 0;
  hits.five += nearer < 5 ? 1 : 0;
}

Hits find(const Embedded& all, std::size_t from) {
  constexpr Index kAtOnce = 64;
  const Matrix& own = all.towers[from];
  const Matrix& others = all.towers[1 - from];
  Hits hits;
  Matrix cosines;
  for (Index first = 0; first < own.rows(); first += kAtOnce) {
    const Index rows = std::min(kAtOnce, own.rows() - first);
    cosines.noalias() = own.middleRows(first, rows) * others.transpose();
    for (Index i = 0; i < rows; ++i)
      count_hit({cosines.row(i).data(), static_cast<std::size_t>(cosines.cols())}, all.numbers,
                all.numbers[static_cast<std::size_t>(first + i)], hits);
  }
  return hits;
}

}  // namespace

RetrievalObjective::RetrievalObjective(LossObjectiveOptions options)
    : objective_(std::move(options)), measures_(objective_.measures()) {
  measures_.insert(measures_.end(), kRecalls.begin(), kRecalls.end());
}

void RetrievalObjective::score(const ScoreRequest& request, std::span<double> sums) const {
  ScoreRequest own = request;
  own.records = nullptr;
  objective_.score(own, sums);
  if (request.records == nullptr) return;
  std::vector<nn::OutputView> outputs;
  for (std::size_t i = 0; i < request.plan.num_outputs(); ++i)
    outputs.push_back(request.plan.output(i));
  add_records(request.batch, outputs, *request.records);
}

void RetrievalObjective::add_records(const pipeline::Batch& batch,
                                     std::span<const nn::OutputView> outputs,
                                     std::vector<float>& records) const {
  const Head& head = heads().front();
  const std::span<const float> values = outputs[head.output].data;
  const auto numbers = batch.field(head.target).as<std::int64_t>();
  const std::size_t width = values.size() / batch.valid.size();
  for (std::size_t i = 0; i < batch.valid.size(); ++i) {
    if (batch.valid[i] == 0) continue;
    records.push_back(static_cast<float>(width));
    add_number(numbers[i], records);
    const auto own = values.subspan(i * width, width);
    records.insert(records.end(), own.begin(), own.end());
  }
}

std::optional<hlo::ScoreResults> RetrievalObjective::stablehlo(
    const hlo::ScoreArguments& of) const {
  return objective_.stablehlo(of);
}

NamedValues RetrievalObjective::finish(const Tally& tally) const {
  NamedValues values =
      objective_.finish({.sums = tally.sums, .samples = tally.samples, .records = {}});
  if (tally.records.empty()) return values;
  const Embedded all = read_embeddings(tally.records);
  const auto samples = static_cast<double>(all.numbers.size());
  auto name = kRecalls.begin();
  for (const std::size_t from : {std::size_t{0}, std::size_t{1}}) {
    const Hits hits = find(all, from);
    values.emplace_back(*name++, hits.one / samples);
    values.emplace_back(*name++, hits.five / samples);
  }
  return values;
}

}  // namespace millrace::trainer
