#include "wds/detail/index_text.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "io/base/error.h"
#include "tests/support/effort.h"
#include "tests/wds/memory_opener.h"
#include "wds/detail/plain_index.h"

namespace millrace::wds::detail {
namespace {

using ::testing::HasSubstr;

ShardIndex three_samples() {
  ShardIndex index{.bytes = 10'240, .end = 7'168, .sha256 = std::string(64, 'a'), .samples = {}};
  for (const char* key : {"a", "d/naïve", "c"}) {
    const std::uint64_t offset = index.samples.size() * 2'048;
    index.samples.push_back(
        {.key = key,
         .offset = offset,
         .members = {{.suffix = "cls", .offset = offset + 512, .size = 0, .crc32 = 0x0123'abcd},
                     {.suffix = "seg.png", .offset = offset + 1'536, .size = 42}}});
  }
  return index;
}

std::string text_of(const std::string& samples, const std::string& count = "1") {
  return R"({"bytes":1,"count":)" + count +
         R"(,"end":1,"millrace_index":1,"sha256":"","samples":[)" + "\n" + samples + "\n]}\n";
}

// The result of parsing: the same index as text, or the error.
std::string outcome(const std::string& text) {
  try {
    return index_text(parse_index(text));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kCorrupt) << text;
    return error.what();
  }
}

// With other white space it is still JSON, but not what write_index() writes.
std::string general_outcome(std::string text) {
  std::replace(text.begin(), text.end(), '\n', '\r');
  return outcome(text);
}

TEST(PlainIndex, ReadsWhatIsWritten) {
  const std::string text = index_text(three_samples());
  const auto plain = parse_plain_index(text);
  ASSERT_TRUE(plain.has_value());
  EXPECT_EQ(index_text(*plain), text);
  EXPECT_FALSE(parse_plain_index(" " + text).has_value());
  EXPECT_EQ(general_outcome(text), text);
}

TEST(IndexText, IsWrittenAsJsonWouldBe) {
  ShardIndex index = three_samples();
  index.samples[0].key = std::string("a\"b\\c\n\t\x01/\x7f ", 11) + "\xC3\xBC\xF0\x9F\x90\x88";
  index.samples[2].members.clear();
  const std::string text = index_text(index);
  for (const IndexedSample& sample : index.samples) {
    auto members = nlohmann::json::array();
    for (const IndexedMember& member : sample.members)
      members.push_back({member.suffix, member.offset, member.size,
                         fmt::format("{:08x}", member.crc32),
                         fmt::format("{:08x}", member.header_crc32)});
    EXPECT_THAT(text,
                HasSubstr("\n" + nlohmann::json({sample.key, sample.offset, members}).dump()));
  }
}

TEST(IndexText, ThatIsSealedShowsEveryChangedBit) {
  const std::string text = index_text(three_samples());
  const std::string seal = sealed(text);
  EXPECT_NO_THROW(check_seal(seal));
  EXPECT_NO_THROW(check_seal(text)) << "of an earlier version";
  const auto plain = parse_plain_index(seal);
  ASSERT_TRUE(plain.has_value());
  EXPECT_EQ(index_text(*plain), text);
  EXPECT_EQ(general_outcome(seal), text);
  for (std::size_t at = 0; at < seal.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string damaged = seal;
      damaged[at] = static_cast<char>(damaged[at] ^ (1 << bit));
      try {
        check_seal(damaged);
        EXPECT_EQ(index_text(parse_index(damaged)), text) << at << " " << bit;
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::kCorrupt);
      }
    }
  }
}

TEST(PlainIndex, LeavesWhatIsNotPlainToTheGeneralParser) {
  ShardIndex index = three_samples();
  index.samples[1].key = "a \"quoted\" key\\";
  const std::string text = index_text(index);
  EXPECT_FALSE(parse_plain_index(text).has_value());
  EXPECT_EQ(parse_index(text).samples[1].key, index.samples[1].key);
  index.samples.clear();
  EXPECT_TRUE(parse_index(index_text(index)).samples.empty());
}

TEST(PlainIndex, AgreesWithTheGeneralParserForEveryMutant) {
  const std::string text = index_text(three_samples());
  const std::size_t step = testing::kSanitized ? 5 : 1;
  for (std::size_t at = 0; at < text.size(); at += step) {
    std::vector<std::string> mutants = {text.substr(0, at), std::string(text).erase(at, 1)};
    for (const char put : std::string("0129af-+.eE \n\"\\[]{},:\x01\x7f\x80\xc3\xff", 26)) {
      mutants.push_back(text);
      mutants.back()[at] = put;
      mutants.push_back(std::string(text).insert(at, 1, put));
    }
    for (const std::string& mutant : mutants) {
      ASSERT_EQ(outcome(mutant), general_outcome(mutant)) << mutant;
    }
  }
}

TEST(PlainIndex, ListsTheSameSamplesWithoutTheirMembers) {
  const std::string text = index_text(three_samples());
  const auto key = [](const ShardIndex& index) {
    std::string keys;
    for (const IndexedSample& one : index.samples)
      keys +=
          one.key + " " + std::to_string(one.offset) + " " + std::to_string(one.num_bytes) + " ";
    return keys;
  };
  const auto listed = parse_plain_index(text, IndexParts::kSamples);
  ASSERT_TRUE(listed.has_value());
  EXPECT_EQ(key(*listed), key(*parse_plain_index(text)));
  for (const IndexedSample& one : listed->samples) EXPECT_TRUE(one.members.empty());
  EXPECT_EQ(listed->samples[0].num_bytes, 42U);
  for (std::size_t at = 0; at < text.size(); ++at) {
    EXPECT_FALSE(parse_plain_index(text.substr(0, at), IndexParts::kSamples).has_value());
    for (const char put : std::string("09-. \"[],")) {
      std::string mutant = text;
      mutant[at] = put;
      const auto whole = parse_plain_index(mutant);
      if (!whole) continue;
      const auto samples = parse_plain_index(mutant, IndexParts::kSamples);
      ASSERT_TRUE(samples.has_value()) << mutant;
      ASSERT_EQ(key(*samples), key(*whole)) << mutant;
    }
  }
}

TEST(PlainIndex, OneLargeSampleMakesTheOthersNoLarger) {
  std::string samples = "[\"a\",0,[";
  for (int i = 0; i < 1000; ++i) samples += R"(["s",0,0,"00000000","00000000"],)";
  samples.back() = ']';
  samples += "],\n[\"b\",1,[[\"s\",0,0,\"00000000\",\"00000000\"]]]";
  const auto index = parse_plain_index(text_of(samples, "2"));
  ASSERT_TRUE(index.has_value());
  EXPECT_EQ(index->samples[0].members.size(), 1000U);
  EXPECT_LE(index->samples[1].members.capacity(), 8U);
}

TEST(IndexText, NamesWhatIsWrong) {
  const std::string member = R"(["s",512,1,"00000000","00000000"])";
  const std::string sample = "[\"a\",0,[" + member + "]]";
  EXPECT_EQ(parse_index(text_of(sample)).samples[0].members[0].offset, 512U);
  const auto with = [&](const std::string& members) {
    return text_of("[\"a\",0,[" + members + "]]");
  };
  const std::vector<std::pair<std::string, std::string>> cases = {
      {text_of(sample).substr(0, 100), "not JSON, or cut short"},
      {text_of(sample, "2"), "its count is wrong"},
      {text_of(sample, "-1"), "not a whole number"},
      {text_of(sample, "18446744073709551616"), "not a whole number"},
      {text_of("[\"b\",5,[" + member + "]],\n" + sample, "2"), "not in order"},
      {text_of("[\"a\",-512,[]]"), "not a whole number"},
      {text_of("[\"a\",1e300,[]]"), "not a whole number"},
      {text_of("[\"a\",0.5,[]]"), "not a whole number"},
      {text_of("[0,0,[]]"), "must be string"},
      {text_of("[\"a\",0,{}]"), "a key, an offset and members"},
      {text_of("{\"a\":0}"), "a key, an offset and members"},
      {text_of("\"a\""), "a key, an offset and members"},
      {with(R"(["s",512,1,"00000000"])"), "five parts"},
      {with(R"(["s",512,1,"00000000","0000000g"])"), "is not a CRC-32"},
      {with(R"(["s",512,1,"00000000","0"])"), "is not a CRC-32"},
      {with(R"(["s",512,1,0,"00000000"])"), "must be string"},
      {with(R"(["s",512,true,"00000000","00000000"])"), "not a whole number"},
      {R"({"bytes":1,"count":1,"end":1,"millrace_index":1,"samples":{"a":1}})", "are not a list"},
      {R"({"bytes":1,"count":0,"end":1,"millrace_index":2,"samples":[]})", "another version"},
      {R"({"bytes":1,"count":0,"end":1,"millrace_index":1,"sha256":7,"samples":[]})", "string"},
      {text_of("[\"\xff\",0,[]]"), "not JSON at byte"},
      {std::string(100'000, '['), "nested more than 8 deep, at byte 8"},
      {text_of(std::string(100'000, '[') + std::string(100'000, ']')), "nested more than 8 deep"}};
  for (const auto& [text, message] : cases) EXPECT_THAT(outcome(text), HasSubstr(message));
}

TEST(IndexText, ErrorsNameTheFile) {
  testing::MemoryOpener opener;
  opener.files["d/x.tar.index.json"] = text_of("[\"a\",0]");
  try {
    find_index(opener, "d/x.tar");
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.where().url, "d/x.tar.index.json");
  }
}

}  // namespace
}  // namespace millrace::wds::detail
