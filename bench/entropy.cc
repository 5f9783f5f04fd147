// How well each shuffle mixes shards that are sorted by class, and what it reads for that.
//
// Twenty classes in twenty shards of 500 samples, in two layouts: shard i holds class i alone, and
// classes i and i + 1. Batches of 128 are cut from one stream, or from four that take turns, and
// the entropy of their classes is printed: the mean and the lowest batch of five seeds. The limit
// is the same for samples in an order drawn at random. Reads are those of one stream; counting
// samples beforehand is not among them. Run: entropy_bench
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "io/base/rng.h"
#include "io/opener.h"
#include "tests/support/counting_opener.h"
#include "tests/support/temp_dir.h"
#include "wds/sample_access.h"
#include "wds/sample_stream.h"
#include "wds/shard_writer.h"

namespace {

using namespace millrace;
using testing::CountingOpener;
using Labels = std::vector<std::size_t>;

constexpr std::size_t kClasses = 20;
constexpr std::size_t kShards = 20;
constexpr std::size_t kShardSamples = 500;
constexpr std::size_t kBatch = 128;
constexpr std::uint64_t kSeeds = 5;

/// Shards without indexes, and what the pipeline would find by scanning them.
struct Layout {
  Layout(const std::string& pattern, std::size_t classes_per_shard) {
    wds::ShardWriter writer({.pattern = pattern, .maxcount = kShardSamples, .index = false});
    for (std::size_t i = 0; i < kShards * kShardSamples; ++i) {
      const std::size_t shard = i / kShardSamples;
      const std::size_t part = i % kShardSamples * classes_per_shard / kShardSamples;
      const std::string label = std::to_string((shard + part) % kClasses);
      writer.write({.key = std::to_string(i), .fields = {{"cls", io::Bytes::copy_of(label)}}});
    }
    for (const wds::ShardSummary& shard : writer.finish()) urls.push_back(shard.url);
    contents = wds::find_contents(io::UrlOpener(), urls);
  }

  wds::StreamSpec spec(const wds::ShuffleOptions& shuffle) const {
    return {.shards = std::make_shared<const std::vector<std::string>>(urls),
            .shuffle = shuffle,
            .found = {.counts = std::make_shared<const std::vector<std::uint64_t>>(kShards,
                                                                                   kShardSamples),
                      .contents = contents}};
  }

  std::vector<std::string> urls;
  std::shared_ptr<const wds::SetContents> contents;
};

Labels read_labels(const wds::StreamSpec& spec, const io::Opener& opener) {
  wds::FaultLedger ledger{wds::FaultPolicy()};
  wds::SampleStream stream(spec, opener, ledger);
  Labels labels;
  for (wds::SampleBlock block; stream.next(block);) {
    for (const wds::Sample& sample : block.samples)
      labels.push_back(std::stoul(std::string(sample.find("cls")->data.text())));
  }
  return labels;
}

/// Slot j is of stream j mod S; `at_once` slots in a row: 1, or a batch as PyTorch's DataLoader.
Labels take_turns(const std::vector<Labels>& streams, std::size_t at_once) {
  Labels all;
  for (std::size_t begin = 0; all.size() < kShards * kShardSamples; begin += at_once) {
    for (const Labels& labels : streams) {
      const std::size_t end = std::min(begin + at_once, labels.size());
      for (std::size_t i = begin; i < end; ++i) all.push_back(labels[i]);
    }
  }
  return all;
}

double entropy_bits(const std::size_t* labels) {
  std::array<double, kClasses> counts{};
  for (std::size_t i = 0; i < kBatch; ++i) ++counts[labels[i]];
  double bits = 0;
  for (const double count : counts)
    if (count > 0) bits -= count / kBatch * std::log2(count / kBatch);
  return bits;
}

/// Of batches' classes, in bits.
struct Entropy {
  double sum = 0;
  double lowest = std::log2(kClasses);
  std::size_t batches = 0;

  void add(const Labels& labels) {
    for (std::size_t begin = 0; begin + kBatch <= labels.size(); begin += kBatch, ++batches) {
      const double bits = entropy_bits(&labels[begin]);
      sum += bits;
      lowest = std::min(lowest, bits);
    }
  }
  std::string text() const {
    return fmt::format("{:.2f} / {:.2f}", sum / static_cast<double>(batches), lowest);
  }
};

struct Setting {
  std::string name;
  wds::ShuffleOptions shuffle;
  std::size_t at_once = 1;
};

Entropy measure(const Layout& layout, const Setting& setting, int num_streams,
                const CountingOpener& opener) {
  wds::StreamSpec spec = layout.spec(setting.shuffle);
  spec.num_streams = num_streams;
  Entropy entropy;
  for (spec.shuffle.seed = 0; spec.shuffle.seed < kSeeds; ++spec.shuffle.seed) {
    std::vector<Labels> streams;
    for (spec.stream = 0; spec.stream < num_streams; ++spec.stream)
      streams.push_back(read_labels(spec, opener));
    entropy.add(take_turns(streams, setting.at_once));
  }
  return entropy;
}

void print_row(const std::string& name, const std::array<std::string, 6>& cells) {
  fmt::print("| {:<38} |", name);
  for (const std::string& cell : cells) fmt::print(" {:>11} |", cell);
  fmt::print("\n");
}

double num_opens(const CountingOpener& opener) {
  double sum = 0;
  for (const auto& [url, times] : opener.opens()) sum += times;
  return sum;
}

void print(const Setting& setting, const Layout& one_class, const Layout& two_classes) {
  const CountingOpener counted;
  const CountingOpener others;
  const std::string alone = measure(one_class, setting, 1, counted).text();
  constexpr double kSamples = kSeeds * kShards * kShardSamples;
  print_row(setting.name, {alone, measure(one_class, setting, 4, others).text(),
                           measure(two_classes, setting, 1, others).text(),
                           measure(two_classes, setting, 4, others).text(),
                           fmt::format("{:.3f}", num_opens(counted) / kSamples),
                           fmt::format("{:.0f}", static_cast<double>(counted.bytes()) / kSamples)});
}

/// Both layouts hold as many samples of each class.
void print_limit() {
  Labels labels;
  for (std::size_t i = 0; i < kShards * kShardSamples; ++i) labels.push_back(i % kClasses);
  Entropy entropy;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    KeyedRng rng({.seed = seed});
    std::shuffle(labels.begin(), labels.end(), rng);
    entropy.add(labels);
  }
  const std::string text = entropy.text();
  print_row("limit: drawn at random", {text, text, text, text, "", ""});
}

std::vector<Setting> settings() {
  std::vector<Setting> all = {{"none", {}}, {"shards shuffled", {.shards = true}}};
  for (const std::int64_t buffer : {100, 1000, 5000}) {
    all.push_back({fmt::format("buffer {}", buffer), {.shards = true, .buffer_samples = buffer}});
  }
  for (const int open : {4, 16, 20}) {
    for (const std::int64_t buffer : {0, 1000}) {
      all.push_back({fmt::format("{} open shards, buffer {}", open, buffer),
                     {.shards = true, .buffer_samples = buffer, .open_shards = open}});
    }
  }
  all.push_back({"permutation", {.order = wds::Order::kPermutation}});
  const wds::ShuffleOptions webdataset = {
      .shards = true, .buffer_samples = 1000, .order = wds::Order::kWebDataset};
  all.push_back({"WebDataset's in millrace", webdataset});
  all.push_back({"WebDataset's, each batch of one worker", webdataset, kBatch});
  return all;
}

}  // namespace

int main() {
  const testing::TempDir folder;
  const Layout one_class(folder / "one-%02d.tar", 1);
  const Layout two_classes(folder / "two-%02d.tar", 2);
  fmt::print(
      "bits of a batch's classes, mean / lowest batch (at most {:.2f}), by classes per shard x "
      "streams; opens and bytes per sample of 1 x 1\n\n",
      std::log2(kClasses));
  print_row("setting", {"1 x 1", "1 x 4", "2 x 1", "2 x 4", "opens", "bytes"});
  fmt::print("|---|---|---|---|---|---|---|\n");
  print_limit();
  for (const Setting& setting : settings()) print(setting, one_class, two_classes);
  return 0;
}
