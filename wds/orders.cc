#include "wds/orders.h"

#include "wds/sample_selection.h"

namespace millrace::wds {
namespace orders {
namespace {

constexpr double kMostBuffered = 4294967296.0;  // 2^32
constexpr double kMostCopies = 1024;

}  // namespace

const ComponentName Shuffled::kName = {
    "shuffled", "Shuffled", "Shards shuffled, and their samples through a buffer of each stream"};

void Shuffled::fields(FieldList& field) {
  field("buffer", buffer, {.min = 0, .max = kMostBuffered, .unit = "samples"},
        "In each stream's buffer; 0 shuffles neither samples nor shards");
  field("open_shards", open_shards, {.min = 1, .max = 1024},
        "Shards that each stream reads in turn, a sample each, so that shards of one class each "
        "are mixed");
}

std::unique_ptr<ShuffleOptions> Shuffled::make() const {
  return std::make_unique<ShuffleOptions>(
      ShuffleOptions{.shards = buffer > 0, .buffer_samples = buffer, .open_shards = open_shards});
}

const ComponentName WebDataset::kName = {"webdataset", "WebDatasetOrder",
                                         "WebDataset 1.0.2's order, bit for bit"};

void WebDataset::fields(FieldList& field) {
  field("buffer", buffer, {.min = 0, .max = kMostBuffered, .unit = "samples"},
        "In each stream's buffer; 0 shuffles neither samples nor shards");
  field("initial", initial, {.min = 1, .max = kMostBuffered, .unit = "samples"},
        "Gathered before the first, as shuffle(initial=)");
  field("shard_shuffle", shard_shuffle, {.min = 0, .max = kMostBuffered, .unit = "shards"},
        "In each stream's buffer, as WebDataset(shardshuffle=); 0: the whole list before its "
        "division, as SimpleShardList(seed=)");
  field("detshuffle", detshuffle, "Another order in each epoch, by seed + epoch");
}

std::unique_ptr<ShuffleOptions> WebDataset::make() const {
  return std::make_unique<ShuffleOptions>(ShuffleOptions{.shards = buffer > 0,
                                                         .buffer_samples = buffer,
                                                         .initial_samples = initial,
                                                         .order = Order::kWebDataset,
                                                         .shard_buffer = shard_shuffle,
                                                         .detshuffle = detshuffle});
}

const ComponentName Permutation::kName = {
    "permutation", "Permutation", "An exact permutation of all samples, each read by its place"};

void Permutation::fields(FieldList& field) {
  field.by_name();
  field("buffer", buffer, {.min = 0, .max = kMostBuffered, .unit = "samples"},
        "Without effect, as nothing is buffered: so that the other orders' may stand beside it");
  field("where", where,
        "Keep samples by an expression over their key and small fields: json.width >= 256 and "
        "json.score > 0.28");
  field("balance", balance,
        "Draw each class (classes, of the field cls), or each value of json.NAME, equally often");
  field("weight", weight,
        "Draw samples by their weights: json.NAME, or a file of KEY WEIGHT lines");
  field("copies", copies, {.min = 1, .max = kMostCopies},
        "Repeated augmentation: each sample so many times in slots that follow each other, with "
        "other crops and flips each time; an epoch stays as long");
}

void Permutation::check() const {
  check_selection({.where = where, .balance = balance, .weight = weight});
}

std::unique_ptr<ShuffleOptions> Permutation::make() const {
  return std::make_unique<ShuffleOptions>(ShuffleOptions{.shards = buffer > 0,
                                                         .buffer_samples = buffer,
                                                         .copies = copies,
                                                         .order = Order::kPermutation,
                                                         .where = where,
                                                         .balance = balance,
                                                         .weight = weight});
}

}  // namespace orders

const TableOf<ShuffleOptions>& standard_orders() {
  static const TableOf<ShuffleOptions> table = TableOf<ShuffleOptions>("order")
                                                   .add<orders::Shuffled>()
                                                   .add<orders::WebDataset>()
                                                   .add<orders::Permutation>();
  return table;
}

}  // namespace millrace::wds
