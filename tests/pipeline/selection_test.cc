// Which samples an epoch draws, and how often: filters, balance and weights.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "io/base/error.h"
#include "io/base/rng.h"
#include "pipeline/data_identity.h"
#include "pipeline/detail/resolve.h"
#include "pipeline/epoch_length.h"
#include "pipeline/pipeline.h"
#include "tests/pipeline/fake_sources.h"
#include "tests/support/counting_opener.h"
#include "tests/support/tar_builder.h"
#include "tests/support/temp_dir.h"
#include "wds/sample_selection.h"
#include "wds/shard_index.h"

namespace millrace::pipeline {
namespace {

using ::testing::HasSubstr;
using testing::TarBuilder;
using testing::TempDir;

constexpr int kChosenSamples = 120;
constexpr std::size_t kPictureBytes = 50'000;

/// 120 samples in 3 shards: class 0 of 90, 1 of 24, 2 of 6; json.n, the sample's number; a large
/// field.
class ChosenSet {
 public:
  ChosenSet() {
    for (int shard = 0; shard < 3; ++shard) {
      TarBuilder tar;
      for (int i = shard * 40; i < shard * 40 + 40; ++i) {
        const std::string key = "s" + std::to_string(i);
        tar.file(key + ".bin", std::string(kPictureBytes, 'x'))
            .file(key + ".cls", std::to_string(class_of(i)))
            .file(key + ".json",
                  "{\"n\": " + std::to_string(i) + ", \"w\": " + std::to_string(i % 3) + "}");
      }
      urls_.push_back(folder_ / ("x-" + std::to_string(shard) + ".tar"));
      testing::write_file(urls_.back(), tar.end().bytes());
      wds::write_index(wds::build_index(io::UrlOpener(), urls_.back()),
                       wds::index_url(urls_.back()));
    }
  }

  static int class_of(int i) { return i % 20 == 0 ? 2 : i % 5 == 1 ? 1 : 0; }

  Pipeline::Builder builder(wds::ShuffleOptions chosen) const {
    chosen.seed = 3;
    chosen.order = wds::Order::kPermutation;
    return Pipeline::Builder()
        .shards(urls_)
        .indexed()
        .shuffle(chosen)
        .field(LabelField{.classes = 3})
        .batch({.size = 4})
        .resources({.threads = 2});
  }

  /// Its first shard and the others as two sets: classes of 30, 8, 2 and of 60, 16, 4.
  Pipeline::Builder mix(wds::ShuffleOptions chosen, double weight = 1) const {
    chosen.seed = 3;
    chosen.order = wds::Order::kPermutation;
    return Pipeline::Builder()
        .mix(weight, urls_[0])
        .mix(1, folder_ / "x-{1..2}.tar")
        .indexed()
        .shuffle(chosen)
        .split({.streams = 4})
        .field(LabelField{.classes = 3})
        .batch({.size = 4})
        .resources({.threads = 2});
  }

  const TempDir& folder() const { return folder_; }

  /// Other bytes in a field that no filter looks at.
  void write_anew() const {
    std::string tar = testing::read_file(urls_[0]);
    tar[1000] = 'y';
    testing::write_file(urls_[0], tar);
  }

  /// The sample's number becomes another, which the index's checksum contradicts.
  void flip_a_bit(int sample = 7) const {
    const std::string& url = urls_[static_cast<std::size_t>(sample / 40)];
    std::string tar = testing::read_file(url);
    const std::size_t json = tar.find("{\"n\": " + std::to_string(sample) + ",");
    if (json == std::string::npos) return;  // flipped already
    tar[json + 6] = tar[json + 6] == '3' ? '2' : '3';
    testing::write_file(url, tar);
  }

 private:
  TempDir folder_;
  std::vector<std::string> urls_;
};

using Draws = std::map<std::string, int>;

/// How often each key comes in an epoch.
Draws draws_of(Pipeline& pipeline) {
  Draws counts;
  for (Batch batch; pipeline.next(batch);)
    for (std::size_t i = 0; i < batch.valid.size(); ++i)
      if (batch.valid[i] != 0) ++counts[batch.keys[i]];
  return counts;
}

int number_of(const std::string& key) { return std::stoi(key.substr(1)); }

TEST(Selection, AFilterKeepsWhatItSaysOnEveryLayoutAndCountsTheRest) {
  const ChosenSet set;
  std::vector<std::vector<std::string>> orders;
  for (const int streams : {1, 3}) {
    Pipeline pipeline = set.builder({.where = "json.n >= 30 and json.n < 60 or cls == 2"})
                            .split({.workers = streams})
                            .build();
    EXPECT_EQ(global_samples_per_epoch(pipeline.options()), 35);
    std::vector<std::string> keys;
    for (Batch batch; pipeline.next(batch);)
      for (std::size_t i = 0; i < batch.valid.size(); ++i)
        if (batch.valid[i] != 0) keys.push_back(batch.keys[i]);
    EXPECT_EQ(pipeline.ledger()->filtered(), 85U);
    EXPECT_EQ(pipeline.ledger()->emitted() + pipeline.ledger()->filtered(), 120U);
    orders.push_back(keys);
  }
  EXPECT_EQ(orders[0], orders[1]);
  EXPECT_EQ(std::set<std::string>(orders[0].begin(), orders[0].end()).size(), 35U);
  for (const std::string& key : orders[0]) {
    const int n = number_of(key);
    EXPECT_TRUE((n >= 30 && n < 60) || ChosenSet::class_of(n) == 2) << key;
  }
}

TEST(Selection, WhatNoSampleHasIsWarnedOf) {
  const ChosenSet set;
  for (const auto& [where, told] :
       std::vector<std::pair<std::string, std::string>>{{"json.m != 3", "json.m"},
                                                        {"nosuch == null or cls == 2", "nosuch"},
                                                        {"cls == 2 or cls == 1", ""},
                                                        {"json.n >= 0 or json.m == 1", ""}}) {
    std::string warning;
    Pipeline pipeline = set.builder({.where = where})
                            .log(Log::to_function([&](LogLevel level, const std::string& line) {
                              if (level == LogLevel::kWarn) warning += line;
                            }))
                            .build();
    if (told.empty())
      EXPECT_EQ(warning, "") << where;
    else
      EXPECT_THAT(warning, HasSubstr("no sample has what the filter looks for: " + told)) << where;
  }
}

TEST(Selection, WhatIsFilteredIsNotRead) {
  const ChosenSet set;
  const auto opener = std::make_shared<testing::CountingOpener>();
  Pipeline pipeline =
      set.builder({.where = "json.n < 12"})
          .field(FunctionField{.name = "bin",
                               .output = {.dtype = decode::DType::kUInt8, .shape = {1}},
                               .decode = [](const auto&, const auto&,
                                            std::span<std::byte> slot) { slot[0] = std::byte{0}; }})
          .opener(opener)
          .build();
  EXPECT_EQ(draws_of(pipeline).size(), 12U);
  // All of the fields that are looked at, and the twelve pictures.
  EXPECT_LT(opener->bytes(), 120 * 12'000 + 12 * 2 * kPictureBytes);
}

TEST(Selection, BalanceDrawsEachClassEquallyOften) {
  const ChosenSet set;
  Pipeline pipeline =
      set.builder({.balance = "classes"}).split({.workers = 2}).epochs({.count = 2}).build();
  std::set<Draws> epochs;
  for (int epoch = 0; epoch < 2; ++epoch) {
    const Draws draws = draws_of(pipeline);
    std::map<int, int> classes;
    for (const auto& [key, count] : draws) {
      const int own = ChosenSet::class_of(number_of(key));
      classes[own] += count;
      const double share = 40.0 / std::vector{90, 24, 6}[static_cast<std::size_t>(own)];
      EXPECT_LE(std::abs(count - share), 1.0) << key;
    }
    EXPECT_EQ(classes, (std::map<int, int>{{0, 40}, {1, 40}, {2, 40}}));
    epochs.insert(draws);
  }
  EXPECT_EQ(epochs.size(), 2U) << "other samples of the large classes in each epoch";
}

TEST(Selection, BalanceHasExactSharesOfAnEpochOfAnyLength) {
  const ChosenSet set;
  Pipeline pipeline = set.builder({.balance = "classes"}).epochs({.samples = 300}).build();
  std::map<int, int> classes;
  for (const auto& [key, count] : draws_of(pipeline))
    classes[ChosenSet::class_of(number_of(key))] += count;
  EXPECT_EQ(classes, (std::map<int, int>{{0, 100}, {1, 100}, {2, 100}}));
}

/// By set and class.
using Shares = std::map<std::pair<int, int>, int>;

Shares shares_of(const Draws& draws) {
  Shares shares;
  for (const auto& [key, count] : draws)
    shares[{number_of(key) < 40 ? 0 : 1, ChosenSet::class_of(number_of(key))}] += count;
  return shares;
}

TEST(Selection, BalanceOfAMixIsWithinEachSetAndTheSetsKeepTheirShares) {
  const ChosenSet set;
  for (const auto& [end, samples, own, other] :
       {std::tuple(wds::MixEnd::kStop, 0, 40, 40), std::tuple(wds::MixEnd::kStop, 60, 30, 30),
        std::tuple(wds::MixEnd::kRepeat, 0, 80, 80),
        std::tuple(wds::MixEnd::kRepeat, 360, 180, 180),
        std::tuple(wds::MixEnd::kDrop, 0, 40, 80)}) {
    Pipeline pipeline =
        set.mix({.balance = "classes"}).mix(end).epochs({.count = 2, .samples = samples}).build();
    const auto promised = global_samples_per_epoch(pipeline.options());
    for (int epoch = 0; epoch < 2; ++epoch) {
      const Draws draws = draws_of(pipeline);
      int all = 0;
      for (const auto& [key, count] : draws) all += count;
      EXPECT_EQ(all, promised);
      for (const auto& [of, count] : shares_of(draws))
        EXPECT_NEAR(count, (of.first == 0 ? own : other) / 3.0, 4)
            << "set " << of.first << " class " << of.second << " epoch " << epoch;
    }
  }
}

TEST(Selection, WeightsOfAMixAreWithinEachSet) {
  const ChosenSet set;
  Pipeline pipeline = set.mix({.weight = "json.w"}, 3).mix(wds::MixEnd::kRepeat).build();
  std::map<std::pair<bool, int>, int> thirds;
  int all = 0;
  for (const auto& [key, count] : draws_of(pipeline)) {
    thirds[{number_of(key) < 40, number_of(key) % 3}] += count;
    all += count;
  }
  // The second set's 80 samples are a quarter.
  EXPECT_NEAR(all, 320, 8);
  const auto share = [&](bool first, int weight) { return (first ? 80 : 80 / 3.0) * weight; };
  for (const auto& [of, count] : thirds)
    EXPECT_NEAR(count, share(of.first, of.second), 5) << of.first << " " << of.second;
  EXPECT_EQ(thirds.count({true, 0}) + thirds.count({false, 0}), 0U);

  std::string lines;
  for (int i = 0; i < kChosenSamples; ++i)
    lines += "s" + std::to_string(i) + (i < 40 ? " 0\n" : " 1\n");
  testing::write_file(set.folder() / "weights.txt", lines);
  try {
    set.mix({.weight = set.folder() / "weights.txt"}).build();
    ADD_FAILURE() << "a set without a sample to draw";
  } catch (const Error& error) {
    EXPECT_THAT(error.message(), HasSubstr("weights are all 0"));
    EXPECT_THAT(error.where().url, HasSubstr("x-0.tar"));
  }
}

TEST(Selection, AMixWithSharesAndCopiesIsTheSameOnEveryLayoutAndGoesOnAfterAnyBatch) {
  const ChosenSet set;
  const auto options = [&](const Topology& topology, const char* where) {
    PipelineOptions found = set.mix({.copies = 2, .where = where, .balance = "classes"})
                                .split({.topology = topology, .streams = 4})
                                .batch({.size = 16 / topology.world_size()})
                                .mix(wds::MixEnd::kRepeat)
                                .epochs({.count = 2})
                                .build()
                                .options();
    found.found = {};
    return found;
  };
  constexpr const char* kWhere = "json.n != 7";
  using KeyOfSlot = std::map<std::pair<std::uint32_t, std::int64_t>, std::string>;
  const auto slots = [&](int processes, int devices) {
    KeyOfSlot all;
    for (int process = 0; process < processes; ++process) {
      Pipeline pipeline(
          options({.process = process, .processes = processes, .devices = devices}, kWhere));
      while (!pipeline.finished())
        for (Batch batch; pipeline.next(batch);)
          for (std::int64_t i = 0; i < batch.size; ++i)
            if (batch.valid[static_cast<std::size_t>(i)] != 0)
              all[{batch.epoch, batch.slots.first + i * batch.slots.stride}] =
                  batch.keys[static_cast<std::size_t>(i)];
    }
    return all;
  };
  const KeyOfSlot one = slots(1, 1);
  EXPECT_EQ(slots(1, 2), one);
  EXPECT_EQ(slots(2, 2), one);
  EXPECT_EQ(slots(4, 1), one);
  // Of each set, the samples that come in eight slots: two of each stream's, so two of each sample.
  std::map<std::tuple<std::uint32_t, std::int64_t, std::string>, int> together;
  for (const auto& [slot, key] : one) ++together[{slot.first, slot.second / 8, key}];
  int whole = 0;
  for (const auto& [at, count] : together) whole += count % 2 == 0 ? 1 : 0;
  EXPECT_GE(whole + 4, static_cast<int>(together.size()));
  testing::expect_same_after_any_resume(options({}, kWhere));

  const auto identity = [&](const char* where) {
    return identify(Pipeline(options({}, where)).options());
  };
  EXPECT_THAT(option_differences(identity(kWhere), identity(kWhere)), ::testing::IsEmpty());
  EXPECT_THAT(option_differences(identity(kWhere), identity("json.n != 8")),
              ::testing::Contains(HasSubstr("selection: ")))
      << "processes that draw other samples";
}

TEST(Selection, WeightsComeFromAMemberOrAFile) {
  const ChosenSet set;
  Pipeline by_member = set.builder({.weight = "json.w"}).build();
  std::map<int, int> thirds;
  for (const auto& [key, count] : draws_of(by_member)) thirds[number_of(key) % 3] += count;
  EXPECT_EQ(thirds, (std::map<int, int>{{1, 40}, {2, 80}}));

  std::string lines;
  for (int i = 0; i < kChosenSamples; ++i)
    lines += "s" + std::to_string(i) + (i < 60 ? " 0\n" : "\t1.5\r\n");
  testing::write_file(set.folder() / "weights.txt", lines);
  Pipeline by_file = set.builder({.weight = set.folder() / "weights.txt"}).build();
  const Draws draws = draws_of(by_file);
  EXPECT_EQ(draws.size(), 60U);
  for (const auto& [key, count] : draws) EXPECT_EQ(count, 2) << key;
}

TEST(Selection, ASampleThatCannotBeLookedAtIsAFaultOrLeftOutAndCountedInEachEpoch) {
  const ChosenSet set;
  set.flip_a_bit();
  const std::vector<wds::ShuffleOptions> all = {
      {.where = "json.n < 12"}, {.balance = "json.w"}, {.weight = "json.w"}};
  for (const wds::ShuffleOptions& chosen : all) {
    try {
      set.builder(chosen).build();
      ADD_FAILURE() << "a damaged field chose a sample";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kCorrupt);
      EXPECT_THAT(error.where().url, HasSubstr("x-0.tar"));
      EXPECT_EQ(error.where().key, "s7");
      EXPECT_TRUE(error.where().offset.has_value());
    }
    EXPECT_THROW(set.builder(chosen).faults({.on_fault = wds::OnFault::kStop}).build(), Error);
    EXPECT_THROW(
        set.builder(chosen).faults({.on_fault = wds::OnFault::kSkip, .max_faults = 0}).build(),
        Error);
    Pipeline pipeline = set.builder(chosen)
                            .faults({.on_fault = wds::OnFault::kSkip})
                            .split({.workers = 3})
                            .epochs({.count = 2})
                            .build();
    for (int epoch = 0; epoch < 2; ++epoch) {
      EXPECT_EQ(draws_of(pipeline).count("s7"), 0U);
      const auto ledger = pipeline.ledger();
      EXPECT_EQ(ledger->skipped(), 1U);
      ASSERT_EQ(ledger->entries().size(), 1U);
      EXPECT_EQ(ledger->entries()[0].where.key, "s7");
      if (!chosen.where.empty()) {
        EXPECT_EQ(ledger->emitted() + ledger->filtered() + ledger->skipped(), 120U);
      }
    }
  }
}

TEST(Selection, AFieldThatIsNoJsonObeysThePolicyWithoutAnIndexToo) {
  const TempDir dir;
  TarBuilder tar;
  for (const std::string key : {"a", "b", "c"})
    tar.file(key + ".cls", "1").file(key + ".json", key == "b" ? "{]" : "{\"n\": 1}");
  testing::write_file(dir / "x.tar", tar.end().bytes());
  const auto builder = [&](wds::OnFault on_fault) {
    return Pipeline::Builder()
        .shards(std::vector<std::string>{dir / "x.tar"})
        .shuffle({.order = wds::Order::kPermutation, .where = "json.n == 1"})
        .faults({.on_fault = on_fault})
        .field(LabelField{.classes = 3})
        .batch({.size = 2});
  };
  try {
    builder(wds::OnFault::kFail).build();
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.where().url, dir / "x.tar");
    EXPECT_EQ(error.where().member, "b.json");
    EXPECT_TRUE(error.where().offset.has_value());
  }
  Pipeline pipeline = builder(wds::OnFault::kSkip).build();
  EXPECT_EQ(draws_of(pipeline), (Draws{{"a", 1}, {"c", 1}}));
  EXPECT_EQ(pipeline.ledger()->skipped(), 1U);
}

/// Samples in an epoch's ledger: emitted, left out, skipped.
std::array<std::uint64_t, 3> account_of(const Pipeline& pipeline) {
  const auto ledger = pipeline.ledger();
  return {ledger->emitted(), ledger->filtered(), ledger->skipped()};
}

TEST(Selection, AResumedEpochHasTheLedgerOfAnUnbrokenOne) {
  KeyedRng rng({.seed = 11});
  for (int round = 0; round < 12; ++round) {
    const ChosenSet set;
    for (std::uint64_t damaged = 1 + rng.below(9); damaged > 0; --damaged)
      set.flip_a_bit(10 + static_cast<int>(rng.below(kChosenSamples - 10)));
    const auto builder = [&] {
      return set.builder({.where = "json.n < 100"})
          .split({.streams = 1 + round % 4})
          .faults({.on_fault = wds::OnFault::kSkip});
    };
    Pipeline unbroken = builder().build();
    draws_of(unbroken);
    const auto whole = account_of(unbroken);
    EXPECT_EQ(whole[0] + whole[1] + whole[2], 120U);
    EXPECT_GT(whole[2], 0U);
    Pipeline first = builder().build();
    Batch batch;
    for (std::uint64_t taken = 1 + rng.below(20); taken > 0; --taken) first.next(batch);
    Pipeline resumed = builder().resume(Position::from_json(first.position().to_json())).build();
    draws_of(resumed);
    EXPECT_EQ(account_of(resumed), whole) << "round " << round;
  }
}

/// A server that answers for indexes alone.
class BusyOpener final : public io::Opener {
 public:
  std::unique_ptr<io::ByteSource> open(const std::string& url,
                                       const io::OpenOptions& options) const override {
    if (url.ends_with("x-1.tar")) throw Error(ErrorCode::kIo, "HTTP status 503", {.url = url});
    return opener_.open(url, options);
  }

 private:
  io::UrlOpener opener_;
};

TEST(Selection, AServerThatDoesNotAnswerIsNoDamage) {
  const ChosenSet set;
  try {
    set.builder({.where = "json.n < 12"})
        .faults({.on_fault = wds::OnFault::kSkip})
        .opener(std::make_shared<const BusyOpener>())
        .build();
    FAIL() << "40 samples were chosen unseen";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kIo) << error.what();
  }
}

TEST(Selection, ProcessesThatSeeOtherDamageDiffer) {
  const ChosenSet set;
  const auto identity = [&] {
    return identify(set.builder({.where = "json.n < 12"})
                        .faults({.on_fault = wds::OnFault::kSkip})
                        .build()
                        .options());
  };
  const DataIdentity whole = identity();
  EXPECT_THAT(option_differences(whole, identity()), ::testing::IsEmpty());
  set.flip_a_bit();
  EXPECT_THAT(option_differences(whole, identity()),
              ::testing::ElementsAre(::testing::MatchesRegex(
                  "selection: 12 samples \\(.*\\) saved, 11 samples \\(.*\\) given")));
}

TEST(Selection, AFileOfWeightsIsKnownByItsContentWhereverItLies) {
  const ChosenSet set;
  const auto write = [&](const std::string& name, const std::string& weight_of_first) {
    std::string lines;
    for (int i = 0; i < kChosenSamples; ++i)
      lines += "s" + std::to_string(i) + " " + (i == 0 ? weight_of_first : "1") + "\n";
    testing::write_file(set.folder() / name, lines);
    return set.folder() / name;
  };
  const std::string file = write("weights.txt", "1");
  const auto builder = [&](const std::string& weight) { return set.builder({.weight = weight}); };
  Pipeline begun = builder(file).build();
  Batch batch;
  ASSERT_TRUE(begun.next(batch));
  const Position position = begun.position();
  EXPECT_NO_THROW(builder(write("moved.txt", "1")).resume(position).build());

  Position earlier = position;  // which had the path in place of the content
  earlier.fingerprint = detail::unselected_fingerprint(begun.options());
  EXPECT_NE(earlier.fingerprint, position.fingerprint);
  EXPECT_NO_THROW(builder(file).resume(earlier).build());

  const DataIdentity before = identify(begun.options());
  DataIdentity much_before = before;
  std::erase_if(much_before.options, [](const auto& one) { return one.first == "selection"; });
  for (auto& [name, value] : much_before.options)
    if (name == "weight") value = "elsewhere/weights.txt";
  EXPECT_THAT(option_differences(much_before, before), ::testing::IsEmpty());

  write("weights.txt", "2");
  try {
    builder(file).resume(position).build();
    FAIL() << "other weights continue the order";
  } catch (const Error& error) {
    EXPECT_THAT(error.message(), HasSubstr("weight: file of SHA-256 "));
  }
  EXPECT_EQ(option_differences(before, identify(builder(file).build().options())).size(), 2U);
}

/// After a batch, as it is saved.
std::string saved_after_one(Pipeline::Builder builder) {
  Pipeline pipeline = builder.build();
  Batch batch;
  EXPECT_TRUE(pipeline.next(batch));
  return pipeline.position_to_save().to_json();
}

/// What a pipeline says that is to continue at `saved`; empty: it does.
std::string resume_refusal(Pipeline::Builder builder, const std::string& saved) {
  try {
    builder.resume(Position::from_json(saved)).build();
    return "";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument) << error.what();
    return error.message();
  }
}

TEST(Selection, APositionOfAnotherSetOrOrderIsRefusedWithWhatDiffers) {
  const ChosenSet set;
  const wds::ShuffleOptions chosen{.where = "json.n < 100"};
  const std::string saved = saved_after_one(set.builder(chosen));
  EXPECT_EQ(resume_refusal(set.builder(chosen), saved), "");
  EXPECT_THAT(resume_refusal(set.builder({.where = "json.n < 99"}), saved),
              HasSubstr("where: json.n < 100 saved, json.n < 99 given"));
  EXPECT_THAT(resume_refusal(set.builder({}), saved),
              HasSubstr("where: json.n < 100 saved, none given"));
  Pipeline::Builder other = set.builder(chosen);
  other.options().shuffle.seed = 4;
  EXPECT_THAT(resume_refusal(other, saved), HasSubstr("shuffle-seed: 3 saved, 4 given"));
  EXPECT_THAT(resume_refusal(set.builder({}).shuffle({.seed = 3}), saved),
              HasSubstr("order: permutation saved, millrace given"));
  other = set.builder(chosen);
  other.options().shards.pop_back();
  EXPECT_THAT(resume_refusal(other, saved), HasSubstr("shards: 3 (names "));
}

TEST(Selection, APositionOfOtherContentsIsRefusedIfItIsKnownThatTheyAreOthers) {
  const ChosenSet set;
  const wds::ShuffleOptions chosen{.where = "json.n < 100"};
  const std::string saved = saved_after_one(set.builder(chosen));
  Position unknown = Position::from_json(saved);
  EXPECT_TRUE(unknown.contents.is_known());
  EXPECT_FALSE(unknown.contents.indexes.empty());
  unknown.contents = {};
  set.write_anew();
  EXPECT_THAT(resume_refusal(set.builder(chosen), saved), HasSubstr("other contents"));
  EXPECT_EQ(resume_refusal(set.builder(chosen), unknown.to_json()), "");

  set.flip_a_bit();
  const auto skipping = [&] {
    return set.builder(chosen).faults({.on_fault = wds::OnFault::kSkip});
  };
  Pipeline pipeline = skipping().build();
  for (Batch batch; pipeline.ledger()->skipped() == 0;) ASSERT_TRUE(pipeline.next(batch));
  EXPECT_FALSE(pipeline.position_to_save().contents.is_known()) << "the shard may be mended";
}

TEST(Selection, ASetWithoutASampleIsRefusedBeforeItIsRead) {
  const TempDir dir;
  testing::write_file(dir / "none.tar", TarBuilder().end().bytes());
  for (const wds::Order order : {wds::Order::kMillrace, wds::Order::kPermutation}) {
    try {
      with_counts(Pipeline::Builder()
                      .shards(std::vector<std::string>{dir / "none.tar"})
                      .shuffle({.order = order})
                      .options());
      ADD_FAILURE() << "accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kNotFound);
      EXPECT_EQ(error.message(), "no sample in 1 shard");
      EXPECT_EQ(error.where().url, dir / "none.tar");
    }
  }
}

TEST(Selection, GoesOnAfterAnyBatch) {
  const ChosenSet set;
  const auto options = set.builder({.where = "json.n != 7", .balance = "classes"})
                           .split({.workers = 3})
                           .epochs({.count = 2})
                           .options();
  EXPECT_EQ(testing::expect_same_after_any_resume(options).size(), 2U * (119 / 4 + 2));
}

TEST(Selection, CopiesOfASampleFollowEachOtherWithDrawsOfTheirOwn) {
  const ChosenSet set;
  const auto options_of = [&](int streams, wds::ShuffleOptions chosen) {
    PipelineOptions options =
        set.builder(std::move(chosen)).split({.workers = streams}).epochs({.count = 2}).options();
    options.fields.push_back(FunctionField{
        .name = "drawn",
        .output = {.dtype = decode::DType::kInt64, .shape = {}},
        .decode = [](const auto&, const decode::SampleId& id, std::span<std::byte> slot) {
          const std::int64_t drawn = id.rng(Purpose{1})();
          std::memcpy(slot.data(), &drawn, sizeof drawn);
        }});
    return options;
  };
  std::vector<std::vector<std::string>> orders;
  for (const int streams : {1, 3}) {
    Pipeline pipeline(options_of(streams, {.copies = 3}));
    std::vector<std::string> keys;
    std::set<std::int64_t> drawn;
    while (!pipeline.finished())
      for (Batch batch; pipeline.next(batch);) {
        keys.insert(keys.end(), batch.keys.begin(), batch.keys.end());
        const auto values = batch.field("drawn").as<std::int64_t>();
        drawn.insert(values.begin(), values.end());
      }
    ASSERT_EQ(keys.size(), 240U);
    EXPECT_EQ(drawn.size(), 240U) << "each copy has crops and flips of its own";
    for (std::size_t i = 0; i < keys.size(); i += 3) {
      EXPECT_EQ(keys[i], keys[i + 1]);
      EXPECT_EQ(keys[i], keys[i + 2]);
    }
    EXPECT_EQ(std::set(keys.begin(), keys.begin() + 120).size(), 40U);
    EXPECT_NE(std::set(keys.begin(), keys.begin() + 120), std::set(keys.begin() + 120, keys.end()));
    orders.push_back(keys);
  }
  EXPECT_EQ(orders[0], orders[1]);
  testing::expect_same_after_any_resume(options_of(3, {.copies = 4, .where = "json.n < 25"}));
  EXPECT_THROW(set.builder({.copies = 0}).build(), Error);
  EXPECT_THROW(set.builder({}).shuffle({.copies = 2}).build(), Error);
}

TEST(Selection, FaultsNameTheSampleOrTheOption) {
  const ChosenSet set;
  const auto fault = [&](const wds::ShuffleOptions& selection) -> std::string {
    try {
      set.builder(selection).build();
    } catch (const Error& error) {
      return error.what();
    }
    return "none";
  };
  EXPECT_THAT(fault({.where = "json.n > 500"}), HasSubstr("keeps none of 120 samples"));
  EXPECT_THAT(fault({.where = "json.n >"}), HasSubstr("column"));
  EXPECT_THAT(fault({.balance = "json.none"}),
              ::testing::ContainsRegex("no json.none to balance by .url .*x-[0-2].tar, key s"));
  EXPECT_THAT(fault({.weight = "json.none"}), HasSubstr("no weight"));
  EXPECT_THAT(fault({.balance = "classes", .weight = "json.w"}), HasSubstr("use one of them"));
  testing::write_file(set.folder() / "w", "s1 1\ns1 2\n");
  EXPECT_THAT(fault({.weight = set.folder() / "w"}), HasSubstr("line 2: a second weight of s1"));
  testing::write_file(set.folder() / "w", "s1 x\n");
  EXPECT_THAT(fault({.weight = set.folder() / "w"}),
              HasSubstr("line 1 is not of the form KEY WEIGHT"));
  EXPECT_THAT(fault({.weight = set.folder() / "none.txt"}), HasSubstr("none.txt"));
  EXPECT_THROW(set.builder({.where = "cls == 1"}).shuffle({.where = "cls == 1"}).build(), Error);
}

}  // namespace
}  // namespace millrace::pipeline
