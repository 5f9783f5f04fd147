// Joins: samples completed from other shards by key, what they refuse, and what faults in them
// cost.
#include "wds/join.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "io/base/error.h"
#include "tests/support/gzipped.h"
#include "tests/support/tar_builder.h"
#include "tests/support/temp_dir.h"
#include "tests/wds/memory_opener.h"
#include "wds/sample_stream.h"

namespace millrace::wds {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::MemoryOpener;
using testing::TarBuilder;
using testing::TempDir;
using Strings = std::vector<std::string>;
using Lists = std::vector<Strings>;

/// Two shards of images a to f; captions of all but c, those of the second shard in another order
/// and with one that no image has.
struct Captioned {
  Captioned() {
    images("0.tar", {"a", "b", "c"});
    images("1.tar", {"d", "e", "f"});
    opener.files["t0.tar"] = captions({"a", "b"});
    opener.files["t1.tar"] = captions({"f", "x", "e", "d"});
  }

  static std::string captions(const Strings& keys) {
    TarBuilder tar;
    for (const std::string& key : keys)
      tar.file(key + ".txt", "about " + key).file(key + ".json", "{}");
    return tar.end().bytes();
  }
  void images(const std::string& url, const Strings& keys) {
    TarBuilder tar;
    for (const std::string& key : keys) tar.file(key + ".jpg", "image " + key);
    opener.files[url] = tar.end().bytes();
    shards.push_back(url);
  }
  void index(const std::string& url) {
    const TempDir dir;
    write_index(build_index(opener, url), dir / "i");
    opener.files[index_url(url)] = testing::read_file(dir / "i");
  }

  /// "a:image a|about a" per sample.
  Strings read(FaultPolicy policy = {}, ShuffleOptions shuffle = {}) {
    StreamSpec spec{.shards = std::make_shared<const Strings>(shards),
                    .shuffle = shuffle,
                    .indexed = true,
                    .found = {.joins = std::make_shared<const Joins>(shards, Lists{others})}};
    spec.shard.suffixes = suffixes;
    ledger = std::make_unique<FaultLedger>(std::move(policy));
    SampleStream stream(std::move(spec), opener, *ledger);
    Strings samples;
    for (SampleBlock block; stream.next(block);)
      for (const Sample& sample : block.samples) samples.push_back(text_of(sample));
    return samples;
  }
  static std::string text_of(const Sample& sample) {
    std::string text = sample.key + ":";
    for (const char* suffix : {"jpg", "txt"})
      if (const Field* field = sample.find(suffix))
        text += std::string(suffix == std::string("txt") ? "|" : "") +
                std::string(reinterpret_cast<const char*>(field->data.data()), field->data.size());
    return text;
  }

  MemoryOpener opener;
  Strings shards;
  Strings others = {"t0.tar", "t1.tar"};
  Strings suffixes = {};
  std::unique_ptr<FaultLedger> ledger;
};

const Strings kComplete = {"a:image a|about a", "b:image b|about b", "c:image c",
                           "d:image d|about d", "e:image e|about e", "f:image f|about f"};

TEST(Joins, CompleteSamplesByKeyInAnyOrderWithAndWithoutIndexes) {
  Captioned set;
  EXPECT_EQ(set.read(), kComplete);
  set.index("t1.tar");
  EXPECT_EQ(set.read(), kComplete);
  set.index("0.tar");
  EXPECT_EQ(set.read(), kComplete);
  set.opener.files["t0.tar"] = testing::gzipped(set.opener.files["t0.tar"]);
  EXPECT_EQ(set.read(), kComplete);
  set.suffixes = {"jpg", "txt"};
  EXPECT_EQ(set.read(), kComplete) << "without the members that nobody wants";
}

TEST(Joins, SayFromWhichShardAFieldIs) {
  Captioned set;
  const Joins joins(set.shards, Lists{set.others});
  EXPECT_THAT(joins.of("1.tar"), ElementsAre("t1.tar"));
  StreamSpec spec{.shards = std::make_shared<const Strings>(set.shards),
                  .found = {.joins = std::make_shared<const Joins>(set.shards, Lists{set.others})}};
  FaultLedger ledger;
  SampleStream stream(spec, set.opener, ledger);
  Sample sample;
  ASSERT_TRUE(stream.next(sample));
  EXPECT_EQ(sample.find("jpg")->url, nullptr);
  EXPECT_EQ(*sample.find("txt")->url, "t0.tar");
}

TEST(Joins, KeepThePositionOfTheSetAlone) {
  Captioned set;
  StreamSpec spec{.shards = std::make_shared<const Strings>(set.shards),
                  .shuffle = {.buffer_samples = 3, .seed = 4},
                  .found = {.joins = std::make_shared<const Joins>(set.shards, Lists{set.others})}};
  const Strings whole = set.read({}, spec.shuffle);
  for (std::size_t at = 0; at < whole.size(); ++at) {
    FaultLedger ledger;
    SampleStream before(spec, set.opener, ledger);
    Sample sample;
    for (std::size_t i = 0; i < at; ++i) ASSERT_TRUE(before.next(sample));
    SampleStream after(spec, before.position(), set.opener, ledger);
    for (std::size_t i = at; i < whole.size(); ++i) {
      ASSERT_TRUE(after.next(sample));
      EXPECT_EQ(Captioned::text_of(sample), whole[i]) << at;
    }
    EXPECT_FALSE(after.next(sample));
  }
}

// `order` lists samples by the indexes, without reading: the bytes of a joined field count there
// too.
TEST(Joins, CountInTheShuffleBufferWhetherReadOrListed) {
  Captioned set;
  for (const char* url : {"0.tar", "1.tar", "t0.tar", "t1.tar"}) set.index(url);
  const auto keys = [&](bool listed, Strings suffixes) {
    StreamSpec spec{
        .shards = std::make_shared<const Strings>(set.shards),
        .shuffle = {.buffer_samples = 6, .buffer_bytes = 40, .seed = 3},
        .indexed = true,
        .found = {.joins = std::make_shared<const Joins>(set.shards, Lists{set.others})}};
    spec.shard.listed = listed;
    spec.shard.suffixes = std::move(suffixes);
    FaultLedger ledger;
    SampleStream stream(spec, set.opener, ledger);
    Strings found;
    for (Sample sample; stream.next(sample);) found.push_back(sample.key);
    return found;
  };
  EXPECT_EQ(keys(true, {}), keys(false, {}));
  EXPECT_EQ(keys(false, {"jpg"}), keys(false, {}));
}

TEST(Joins, RefuseListsThatDoNotFit) {
  const Strings shards = {"0.tar", "1.tar"};
  const auto message = [&](const Strings& own, const Strings& list) {
    try {
      const Joins joins(own, Lists{list});
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
      return error.message();
    }
    return std::string("nothing thrown");
  };
  EXPECT_EQ(message(shards, {"t.tar"}),
            "1 shard cannot complete 2 shards: a joined list has one shard for each, in the same "
            "order");
  EXPECT_THAT(message(shards, {"t.tar", "-"}), HasSubstr("a pipe cannot be searched: -"));
  EXPECT_THAT(message({"0.tar", "0.tar"}, {"t.tar", "u.tar"}), HasSubstr("with different ones"));
  EXPECT_EQ(message({"0.tar", "0.tar"}, {"t.tar", "t.tar"}), "nothing thrown");
}

TEST(Joins, FaultsCostTheSamplesThatTheyHit) {
  const FaultPolicy skip{.on_fault = OnFault::kSkip};
  Captioned set;
  set.index("t0.tar");
  std::string& captions = set.opener.files["t0.tar"];
  captions[captions.find("about b")] = 'A';
  Strings rest = kComplete;
  rest.erase(rest.begin() + 1);
  EXPECT_EQ(set.read(skip), rest);
  ASSERT_EQ(set.ledger->skipped(), 1U);
  const FaultLedger::Entry fault = set.ledger->entries().at(0);
  EXPECT_EQ(fault.where.url, "t0.tar");
  EXPECT_EQ(fault.where.key, "b");
  EXPECT_THROW(set.read(), Error);
}

TEST(Joins, AKeyTwiceOrASuffixTwiceIsAFaultOfThatSample) {
  const FaultPolicy skip{.on_fault = OnFault::kSkip};
  Captioned set;
  set.opener.files["t1.tar"] = TarBuilder()
                                   .file("d.txt", "about d")
                                   .file("e.txt", "about e")
                                   .file("d.json", "{}")
                                   .file("f.jpg", "another image")
                                   .end()
                                   .bytes();
  FaultPolicy lenient = skip;
  lenient.lenient = true;
  EXPECT_THAT(set.read(lenient),
              ElementsAre(kComplete[0], kComplete[1], kComplete[2], kComplete[4]));
  ASSERT_EQ(set.ledger->entries().size(), 2U);
  EXPECT_THAT(set.ledger->entries()[0].message, HasSubstr("several samples with this key"));
  EXPECT_THAT(set.ledger->entries()[1].message, HasSubstr("has already"));
  EXPECT_EQ(set.ledger->entries()[1].where.member, "f.jpg");
}

TEST(Joins, AShardThatCompletesNoSampleIsWarnedOf) {
  for (const char* partner : {"s20", "s16", "other"}) {
    Captioned set;
    Strings keys;
    for (int i = 10; i < 30; ++i) keys.push_back("s" + std::to_string(i));
    set.shards.pop_back();
    set.others.pop_back();
    set.shards[0] = "many.tar";
    TarBuilder tar;
    for (const std::string& key : keys) tar.file(key + ".jpg", "image");
    set.opener.files["many.tar"] = tar.end().bytes();
    set.opener.files["t0.tar"] = Captioned::captions({partner});
    EXPECT_EQ(set.read().size(), 20U);
    EXPECT_EQ(set.ledger->warnings(), std::string(partner) == "other" ? 1U : 0U) << partner;
  }
}

TEST(Joins, AJoinedShardThatCannotBeReadCostsTheShardThatItCompletes) {
  const FaultPolicy skip{.on_fault = OnFault::kSkip};
  Captioned set;
  set.index("0.tar");
  set.opener.files.erase("t0.tar");
  EXPECT_THAT(set.read(skip), ElementsAre(kComplete[3], kComplete[4], kComplete[5]));
  EXPECT_EQ(set.ledger->skipped(), 3U);
  EXPECT_EQ(set.ledger->entries().at(0).where.url, "t0.tar");
}

TEST(Joins, FaultsNameTheJoinedShardWithAndWithoutAnIndex) {
  const FaultPolicy skip{.on_fault = OnFault::kSkip};
  for (const bool indexed : {false, true}) {
    for (const std::size_t kept : {std::size_t{100}, std::size_t{512}, std::size_t{700}}) {
      Captioned set;
      if (indexed) set.index("t0.tar");
      set.opener.files["t0.tar"].resize(kept);
      set.read(skip);
      ASSERT_FALSE(set.ledger->entries().empty());
      for (const auto& fault : set.ledger->entries())
        EXPECT_EQ(fault.where.url, "t0.tar") << indexed << " " << kept << ": " << fault.message;
    }
    Captioned set;
    if (indexed) set.index("t0.tar");
    set.opener.files["t0.tar"][600] ^= 1;   // a payload of what is joined
    set.opener.files["t0.tar"][1100] ^= 1;  // a header
    set.read(skip);
    ASSERT_FALSE(set.ledger->entries().empty());
    for (const auto& fault : set.ledger->entries()) EXPECT_EQ(fault.where.url, "t0.tar");
  }
}

}  // namespace
}  // namespace millrace::wds
