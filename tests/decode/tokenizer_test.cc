// Tokenizers from files: what they make of texts, beside Hugging Face's library where Python has
// it, and which files are refused.
#include "decode/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "io/base/error.h"
#include "tests/support/process.h"
#include "tests/support/temp_dir.h"

namespace millrace {
namespace tokenizer_test {

using decode::Tokenizer;
using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Numbers = std::vector<std::int64_t>;

constexpr std::int64_t kBegin = 20, kEnd = 21, kBreak = 22;

/// CLIP's parts, of words of a, b and c. A file of three merges: of "ab" as a word, then "ab</w>c".
json small_tokenizer() {
  return json::parse(R"({
    "added_tokens": [
      {"id": 20, "content": "<s>", "normalized": false, "special": true},
      {"id": 21, "content": "<e>", "normalized": false, "special": true},
      {"id": 22, "content": "BR", "normalized": true, "lstrip": true, "rstrip": true}],
    "normalizer": {"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "Lowercase"}]},
    "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false},
    "post_processor": {"type": "RobertaProcessing", "cls": ["<s>", 20], "sep": ["<e>", 21]},
    "model": {"type": "BPE", "end_of_word_suffix": "</w>", "unk_token": null,
      "vocab": {"a": 0, "b": 1, "c": 2, "a</w>": 3, "b</w>": 4, "c</w>": 5, "ab": 6, "ab</w>": 7,
                "bc": 8, "abc</w>": 9, "Ġ": 10, "bc</w>": 11},
      "merges": ["b c", "a b", "a b</w>", ["b", "c</w>"], "ab c</w>"]}})");
}

Tokenizer tokenizer_of(const json& described) {
  return {io::Bytes::copy_of(described.dump()), "some/tokenizer.json"};
}

std::string refusal_of(const std::string& contents) try {
  static_cast<void>(Tokenizer(io::Bytes::copy_of(contents), "some/tokenizer.json"));
  return "accepted";
} catch (const Error& error) {
  return error.what();
}

/// Of the small tokenizer with one part replaced.
std::string refusal_with(const char* place, const json& part) {
  json described = small_tokenizer();
  described[json::json_pointer(place)] = part;
  return refusal_of(described.dump());
}

TEST(Tokenizer, MergesThePairOfTheLowestRankFirst) {
  const Tokenizer tokenizer = tokenizer_of(small_tokenizer());
  EXPECT_THAT(tokenizer.encode("ab"), ElementsAre(kBegin, 7, kEnd));
  EXPECT_THAT(tokenizer.encode("abc"), ElementsAre(kBegin, 9, kEnd));
  EXPECT_THAT(tokenizer.encode("abca"),
              ElementsAre(kBegin, 0, 8, 3, kEnd));  // "b c" is before "a b"
  EXPECT_THAT(tokenizer.encode(" ab"), ElementsAre(kBegin, 10, 7, kEnd));
  EXPECT_EQ(tokenizer.vocabulary(), 23);
}

TEST(Tokenizer, LowersNormalizesAndLeavesUnknownCharactersOut) {
  const Tokenizer tokenizer = tokenizer_of(small_tokenizer());
  EXPECT_THAT(tokenizer.encode("AxB"), ElementsAre(kBegin, 7, kEnd));
  EXPECT_THAT(tokenizer.encode(""), ElementsAre(kBegin, kEnd));
  EXPECT_THAT(tokenizer.encode("猫"), ElementsAre(kBegin, kEnd));
}

TEST(Tokenizer, FindsAddedTokensBeforeItSplits) {
  const Tokenizer tokenizer = tokenizer_of(small_tokenizer());
  EXPECT_THAT(tokenizer.encode("a<e>b"), ElementsAre(kBegin, 3, 21, 4, kEnd));
  EXPECT_THAT(tokenizer.encode("a  br \n b"), ElementsAre(kBegin, 3, kBreak, 4, kEnd));
  EXPECT_THAT(tokenizer.encode("a<E>b"), ElementsAre(kBegin, 3, 4, kEnd));  // not as it is written
}

TEST(Tokenizer, CutsTheTextAndKeepsWhatIsAddedBehindIt) {
  const Tokenizer tokenizer = tokenizer_of(small_tokenizer());
  EXPECT_THAT(tokenizer.encode("a b c a", 4), ElementsAre(kBegin, 3, 10, kEnd));
  EXPECT_THAT(tokenizer.encode(std::string(1 << 20, 'a'), 3), ElementsAre(kBegin, 0, kEnd));
  EXPECT_THAT(tokenizer.encode("a", 2), ElementsAre(kBegin, kEnd));
}

TEST(Tokenizer, RefusesTextThatIsNotUtf8) {
  const Tokenizer tokenizer = tokenizer_of(small_tokenizer());
  for (const std::string text : {"a\xff", "\xed\xa0\x80", "\xc3"})
    EXPECT_THROW(tokenizer.encode(text), Error) << text;
}

TEST(Tokenizer, RefusesPartsThatItLacksByName) {
  const std::string where = "(url some/tokenizer.json)";
  for (const auto& [place, part, words] : std::vector<std::tuple<const char*, json, const char*>>{
           {"/model/type", "Unigram", "model Unigram is not supported"},
           {"/model/byte_fallback", true, "BPE with byte_fallback"},
           {"/model/dropout", 0.1, "BPE with dropout"},
           {"/model/continuing_subword_prefix", "##", "continuing_subword_prefix"},
           {"/normalizer", {{"type", "BertNormalizer"}}, "normalizer BertNormalizer"},
           {"/normalizer/normalizers/1/type", "Nmt", "normalizer Nmt"},
           {"/pre_tokenizer", {{"type", "Metaspace"}}, "pre_tokenizer Metaspace"},
           {"/pre_tokenizer",
            {{"type", "Split"}, {"pattern", {{"Regex", "(a+)+$"}}}, {"behavior", "Removed"}},
            "Split at \"(a+)+$\""},
           {"/post_processor/type", "Own", "post_processor Own"},
           {"/added_tokens/0/single_word", true, "added token \"<s>\" of single words"},
       })
    EXPECT_THAT(refusal_with(place, part), ::testing::AllOf(HasSubstr(words), HasSubstr(where)))
        << place;
}

TEST(Tokenizer, RefusesFilesThatAreNone) {
  EXPECT_THAT(refusal_of(""), HasSubstr("some/tokenizer.json"));
  EXPECT_THAT(refusal_of("{}"), HasSubstr("Corrupt: not a tokenizer: key 'model' not found (url "));
  EXPECT_THAT(refusal_of("[1]"), HasSubstr("not a tokenizer"));
  EXPECT_THAT(refusal_of(std::string(100'000, '[')), HasSubstr("Corrupt"));
  EXPECT_THAT(refusal_with("/model/merges/0", "a x"), HasSubstr("the vocabulary lacks \"x\""));
  EXPECT_THAT(refusal_with("/model/merges/0", "a b c"), HasSubstr("a merge is two pieces"));
  EXPECT_THAT(refusal_with("/model/merges", 7), HasSubstr("not a tokenizer"));
  EXPECT_THAT(refusal_with("/model/vocab/a", -1), HasSubstr("a token's number"));
  EXPECT_THAT(refusal_with("/model/vocab/a", 1.5), HasSubstr("a token's number"));
  EXPECT_THAT(refusal_with("/added_tokens/0/id", 1 << 24), HasSubstr("a token's number"));
}

TEST(Tokenizer, BoundsWhatANormalizerMakesOfAText) {
  json described = small_tokenizer();
  json& steps = described["normalizer"]["normalizers"] = json::array();
  for (int i = 0; i < 6; ++i)
    steps.push_back(
        {{"type", "Replace"}, {"pattern", {{"String", "a"}}}, {"content", "aaaaaaaaaaaaaaaa"}});
  EXPECT_THROW(tokenizer_of(described).encode("aaaa"), Error);
  steps[0]["content"] = std::string(17, 'a');
  EXPECT_THAT(refusal_of(described.dump()), HasSubstr("Replace by 17 bytes"));
}

TEST(Tokenizer, MakesWhatHuggingFacesDoes) {
  const std::string python = testing::oracle_python("tokenizers");
  if (python.empty()) GTEST_SKIP() << "no Python that has tokenizers";
  const testing::TempDir dir;
  const auto trained =
      testing::run_process({python, "tests/decode/tokenizer_oracle.py", dir.path().string()});
  ASSERT_EQ(trained.status, 0) << trained.err;
  for (const std::string kind : {"gpt2", "roberta", "clip", "compatible"}) {
    const Tokenizer tokenizer(io::Bytes::copy_of(testing::read_file(dir / (kind + ".json"))), kind);
    const json expected = json::parse(testing::read_file(dir / (kind + ".expected")));
    ASSERT_GT(expected.at("texts").size(), 600U);
    for (std::size_t i = 0; i < expected.at("texts").size(); ++i) {
      const auto text = expected["texts"][i].get<std::string>();
      EXPECT_EQ(tokenizer.encode(text), expected["ids"][i].get<Numbers>()) << kind << ": " << text;
      EXPECT_EQ(tokenizer.encode(text, 8), expected["cut"][i].get<Numbers>())
          << kind << ": " << text;
    }
  }
}

/// A model of each kind, trained by Python's sentencepiece.
class SentencePiece : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string python = testing::oracle_python("sentencepiece");
    if (python.empty()) GTEST_SKIP() << "no Python that has sentencepiece";
    static const auto trained = testing::run_process(
        {python, "tests/decode/sentence_piece_oracle.py", folder().path().string()});
    ASSERT_EQ(trained.status, 0) << trained.err;
  }
  static const testing::TempDir& folder() {
    static const testing::TempDir dir;
    return dir;
  }
  static std::string file(const std::string& name) { return testing::read_file(folder() / name); }
};

std::string refusal_of_pieces(const std::string& contents) try {
  static_cast<void>(Tokenizer(io::Bytes::copy_of(contents), "some/spiece.model"));
  return "accepted";
} catch (const Error& error) {
  return error.what();
}

/// A field of counted bytes of a protocol buffer, shorter than 2^14.
std::string proto_bytes(int number, const std::string& bytes) {
  std::string field(1, static_cast<char>(number << 3 | 2));
  field += static_cast<char>((bytes.size() & 127) | 128);
  field += static_cast<char>(bytes.size() >> 7);
  return field + bytes;
}

std::string piece(const std::string& text, int type = 1) {
  return proto_bytes(1, proto_bytes(1, text) + '\x18' + static_cast<char>(type));
}

/// Of a double array's units, and the replacements behind it.
std::string with_rules(const std::vector<std::uint32_t>& units, const std::string& replacements) {
  std::string rules;
  const auto put = [&](std::uint32_t number) {
    for (int byte = 0; byte < 4; ++byte) rules += static_cast<char>(number >> 8 * byte);
  };
  put(static_cast<std::uint32_t>(units.size() * 4));
  for (const std::uint32_t unit : units) put(unit);
  return piece("<unk>", 2) + piece("a") + proto_bytes(3, proto_bytes(2, rules + replacements));
}

TEST_F(SentencePiece, MakesWhatItsOwnPythonDoes) {
  for (const std::string kind : {"unigram", "t5", "llama", "bpe", "folded", "char", "word"}) {
    const Tokenizer tokenizer(io::Bytes::copy_of(file(kind + ".model")), kind + ".model");
    const json expected = json::parse(file(kind + ".expected"));
    ASSERT_GT(expected.at("texts").size(), 600U);
    EXPECT_EQ(tokenizer.vocabulary(), expected["pieces"]) << kind;
    for (std::size_t i = 0; i < expected.at("texts").size(); ++i) {
      const auto text = expected["texts"][i].get<std::string>();
      auto ids = expected["ids"][i].get<Numbers>();
      EXPECT_EQ(tokenizer.encode(text), ids) << kind << ": " << text;
      ids.resize(std::min<std::size_t>(ids.size(), 6));
      ids.insert(ids.begin(), 1);
      ids.push_back(2);
      EXPECT_EQ(tokenizer.encode(text, 8, {.begin = 1, .end = 2}), ids) << kind << ": " << text;
    }
  }
}

TEST_F(SentencePiece, RefusesDamagedModelsAndHostileTexts) {
  const std::string model = file("unigram.model");
  for (std::size_t size = 0; size < model.size(); size += size < 2'000 ? 1 : 997)
    EXPECT_THAT(refusal_of_pieces(model.substr(0, size)),
                HasSubstr("Corrupt: not a SentencePiece model: "))
        << size;
  const Tokenizer tokenizer(io::Bytes::copy_of(model), "spiece.model");
  EXPECT_EQ(tokenizer.num_added(), 0U);
  for (const std::string text : {"a\xff", "\xed\xa0\x80", "\xc3"})
    EXPECT_THROW(tokenizer.encode(text), Error) << text;
  EXPECT_GT(tokenizer.encode(std::string(1 << 20, 'a')).size(), 1000U);
  EXPECT_THROW(tokenizer.encode(std::string((1 << 20) + 1, 'a')), Error);
}

TEST(SentencePieceModel, RefusesModelsThatItsLibraryWouldTake) {
  const std::string where = "(url some/spiece.model)";
  for (const auto& [contents, words] : std::vector<std::pair<std::string, const char*>>{
           {"", "it has no pieces"},
           {"{\"model\": {}}", "not a SentencePiece model"},
           {piece("<unk>", 2) + piece(std::string(2000, 'a')), "more than 1024 bytes"},
           {proto_bytes(1, proto_bytes(1, "a") + std::string("\x15\0\0\xc0\x7f", 5)),
            "score is no number"},
           {with_rules({1U << 20}, std::string("a\0", 2)), "lead out of them"},
           {with_rules({1U << 10, 2}, std::string("a\0", 2)), "lead out of them"},
           {with_rules({1}, "a"), "rules are damaged"}})
    EXPECT_THAT(refusal_of_pieces(contents), ::testing::AllOf(HasSubstr(words), HasSubstr(where)));
  std::string nested = piece("<unk>", 2);
  for (std::size_t length = 1; length <= 65; ++length) nested += piece(std::string(length, 'a'), 4);
  EXPECT_THAT(refusal_of_pieces(nested), HasSubstr("user-defined symbols begin alike"));
}

/// A rule that is its own next one: 'a', 'aa', 'aaa', ... are all rules.
TEST(SentencePieceModel, RefusesRulesWithoutEnd) {
  std::vector<std::uint32_t> units(256, 0xFEU);
  units[0] = 0;  // the root's place is 0
  units['a'] =
      1U << 8U | 'a' | static_cast<std::uint32_t>('a') << 10U;  // back to 0, and a rule ends
  EXPECT_THAT(refusal_of_pieces(with_rules(units, std::string("b\0", 2))),
              HasSubstr("rules begin alike"));
}

}  // namespace tokenizer_test
}  // namespace millrace
