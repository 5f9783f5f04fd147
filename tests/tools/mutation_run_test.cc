// The mutation run: the program on hundreds of mutants of each kind of file that it reads. Whatever
// the input, it must not crash, hang or use a gigabyte of memory, its error message must have a
// readable length, and with an index no sample may be lost silently.
//
// Mutants are selected by number (tests/support/mutator.h): a failure names it, and the same
// number reproduces it. Ten shards are read per process, since a process costs more than a small
// shard.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>

#include "io/base/hash.h"
#include "tests/support/effort.h"
#include "tests/support/gzipped.h"
#include "tests/support/mutator.h"
#include "tests/tools/support.h"

namespace millrace::testing {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr std::uint64_t kMutants = 300;
constexpr std::uint64_t kShardsARun = 10;
constexpr std::size_t kSamples = 6;
constexpr std::size_t kGigabyte = std::size_t{1024} * 1024 * 1024;

struct Numbers {
  std::uint64_t first = 0;
  std::uint64_t end = 0;
};

/// Of `mutants` the first third is any run's, the others are the long suite's.
Numbers numbers_of(std::uint64_t mutants) {
  return is_long() ? Numbers{mutants / 3, mutants} : Numbers{0, mutants / 3};
}

class MutationRun : public ::testing::Test {
 protected:
  MutationRun() {
    const auto made = millrace({"create", dir_ / "a-%06d.tar", "--synthetic", "classes", "--count",
                                std::to_string(2 * kSamples), "--maxcount",
                                std::to_string(kSamples), "--size", "8"});
    EXPECT_EQ(made.status, 0) << made.err;
    tar_ = read_file(dir_ / "a-000000.tar");
    index_ = read_file(dir_ / "a-000000.tar.index.json");
  }

  void SetUp() override {
    if (kSanitized) GTEST_SKIP() << "memory is measured, and a sanitizer's own is not of interest";
  }

  /// Runs the program and expects that it does not crash.
  ProcessResult survive(const std::vector<std::string>& words, const std::string& mutant) const {
    auto result = millrace(words, {.environment = {{"OMP_NUM_THREADS", "1"}},
                                   .cpu_seconds = 20,
                                   .data_bytes = 4 * kGigabyte});
    const std::string what = mutant + " by " + words.front() + ": " + result.err.substr(0, 1000);
    EXPECT_TRUE(result.status >= 0 && result.status <= 2) << result.status << ", " << what;
    EXPECT_LT(result.peak_bytes, kGigabyte) << what;
    EXPECT_TRUE(result.status == 0 || !result.err.empty()) << what;
    EXPECT_LT(longest_line(result.err), 2000U) << what;
    for (const char* raw : {"json.exception", "std::", "basic_string", "terminate called"})
      EXPECT_EQ(result.err.find(raw), result.err.npos) << what;
    return result;
  }

  static std::size_t longest_line(const std::string& text) {
    std::size_t longest = 0;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = std::min(text.find('\n', at), text.size());
      longest = std::max(longest, end - at);
      at = end + 1;
    }
    return longest;
  }

  /// Reads ten shards, whose tar and index `mutate` produces, in one run of each command.
  template <typename Mutate>
  void read_ten(std::uint64_t first, const Mutate& mutate) {
    std::vector<std::string> shards;
    for (std::uint64_t number = first; number < first + kShardsARun; ++number) {
      shards.push_back(dir_ / ("m" + std::to_string(number) + ".tar"));
      const auto [tar, index] = mutate(number);
      write_file(shards.back(), tar);
      write_file(shards.back() + ".index.json", index);
    }
    const std::string what = "mutants from " + std::to_string(first);
    const auto told = told_by_verify(shards, what);
    const auto read = read_by_order(shards, what);
    for (const std::string& shard : shards) {
      if (told.contains(shard)) continue;
      EXPECT_EQ(read.contains(shard) ? read.at(shard) : 0, kSamples)
          << shard << " lost samples, and verify is silent";
    }
    for (const std::string& shard : shards) fs::remove(shard);
  }

  std::set<std::string> told_by_verify(const std::vector<std::string>& shards,
                                       const std::string& what) {
    std::vector<std::string> words = {"verify", "--json"};
    words.insert(words.end(), shards.begin(), shards.end());
    const auto result = survive(words, what);
    std::set<std::string> told;
    if (result.out.empty()) {  // not even started, and reported
      EXPECT_NE(result.status, 0) << what;
      return {shards.begin(), shards.end()};
    }
    const Json report = json_lines(result.out).front();
    for (const Json& fault : report["faults"]) {
      const auto url = fault["url"].get<std::string>();
      told.insert(url.substr(0, url.find(".index.json")));
    }
    EXPECT_EQ(result.status == 0, told.empty()) << what << ": " << result.err;
    return told;
  }

  /// How many samples of each shard a run that skips damage would see.
  std::map<std::string, std::size_t> read_by_order(const std::vector<std::string>& shards,
                                                   const std::string& what) {
    std::vector<std::string> words = {"order", "--json", "--on-fault", "skip"};
    words.insert(words.end(), shards.begin(), shards.end());
    const auto result = survive(words, what);
    std::map<std::string, std::size_t> read;
    std::size_t all = 0;
    for (const Json& line : json_lines(result.out)) {
      ++read[line["url"].get<std::string>()];
      ++all;
    }
    EXPECT_EQ(result.status, 0) << what << ": a damaged shard or index ends no run that skips";
    EXPECT_TRUE(all == shards.size() * kSamples || result.err.find("skip") != std::string::npos)
        << what << ": " << all << " samples, and not a word: " << result.err;
    return read;
  }

  TempDir dir_;
  std::string tar_;
  std::string index_;
};

TEST_F(MutationRun, ShardsBesideTheirIndexes) {
  const Numbers numbers = numbers_of(kMutants);
  for (std::uint64_t first = numbers.first; first < numbers.end; first += kShardsARun) {
    read_ten(first,
             [&](std::uint64_t number) { return std::pair(mutated_tar(tar_, number), index_); });
  }
}

TEST_F(MutationRun, IndexesBesideWholeShards) {
  const Numbers numbers = numbers_of(kMutants);
  for (std::uint64_t first = numbers.first; first < numbers.end; first += kShardsARun) {
    read_ten(first, [&](std::uint64_t number) {
      // Without its CRC-32 a damaged index reaches what is behind that.
      const std::string index = number % 4 == 0 ? index_ : without_seal(index_);
      return std::pair(tar_, mutated_text(index, number));
    });
  }
}

/// A zstd frame (RFC 8878) of `data` as it is, with a window of 8 MiB and no checksum.
std::string stored_zstd(const std::string& data) {
  std::string frame("\x28\xb5\x2f\xfd\0\x58", 6);
  const std::size_t header = data.size() << 3U | 1U;
  for (const int shift : {0, 8, 16}) frame += static_cast<char>(header >> shift);
  return frame + data;
}

TEST_F(MutationRun, PackedShards) {
  for (const std::string& packed : {gzipped(tar_), stored_zstd(tar_)}) {
    write_file(dir_ / "packed.tar", packed);
    ASSERT_EQ(millrace({"index", "--force", dir_ / "packed.tar"}).status, 0);
    const std::string index = read_file(dir_ / "packed.tar.index.json");
    const Numbers numbers = numbers_of(kMutants / 2);
    for (std::uint64_t first = numbers.first; first < numbers.end; first += kShardsARun) {
      read_ten(first, [&](std::uint64_t number) {
        return std::pair(mutated_pack(packed, number), index);
      });
    }
  }
}

TEST_F(MutationRun, PackedShardsWithoutAnIndex) {
  const std::string packed = stored_zstd(tar_);
  const Numbers numbers = numbers_of(kMutants / 3);
  for (std::uint64_t number = numbers.first; number < numbers.end; ++number) {
    const std::string shard = dir_ / "packed.tar";
    write_file(shard, mutated_pack(packed, number));
    const std::string what = "packed shard " + std::to_string(number);
    const std::vector<std::vector<std::string>> ways = {
        {"verify", shard}, {"ls", shard}, {"order", "--on-fault", "skip", shard}};
    survive(ways[number % ways.size()], what);
  }
}

TEST_F(MutationRun, Manifests) {
  const std::string manifest = read_file(dir_ / "a-manifest.json");
  const std::string path = dir_ / "b-manifest.json";
  const Numbers numbers = numbers_of(kMutants);
  for (std::uint64_t number = numbers.first; number < numbers.end; ++number) {
    write_file(path, mutated_text(manifest, number));
    survive({number % 2 == 0 ? "order" : "verify", path}, "manifest " + std::to_string(number));
  }
}

TEST_F(MutationRun, Configurations) {
  const std::string order =
      "seed = 3\nlimit = 4\nshuffle = 10\nworkers = 2\njson = true\non-fault = \"skip\"\n"
      "max-faults = 0.5\nthreads = 1\n";
  const std::string train =
      "model = \"lenet\"\nsize = 28\nchannels = 1\nclasses = 10\nbatch-size = 4\n"
      "devices = 1\nmean = [0.5]\nstd = [0.5]\noptimizer = \"adam\"\nlr = 0.1\n";
  const Numbers numbers = numbers_of(kMutants);
  for (std::uint64_t number = numbers.first; number < numbers.end; ++number) {
    const bool odd = number % 2 == 1;
    write_file(dir_ / "c.toml", mutated_text(odd ? train : order, number));
    std::vector<std::string> words = {"order", dir_ / "a-000000.tar"};
    if (odd) words = {"train", "--summary"};
    words.insert(words.end(), {"--config", dir_ / "c.toml"});
    survive(words, "configuration " + std::to_string(number));
  }
}

TEST_F(MutationRun, Tokenizers) {
  const std::string whole = R"({
    "added_tokens": [{"id": 8, "content": "<s>", "normalized": false, "lstrip": true, "special": true}],
    "normalizer": {"type": "Sequence", "normalizers": [{"type": "NFKC"}, {"type": "Lowercase"},
      {"type": "Replace", "pattern": {"Regex": "\\s+"}, "content": " "}]},
    "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": true, "use_regex": true},
    "post_processor": {"type": "TemplateProcessing", "special_tokens": {"E": {"ids": [9]}},
      "single": [{"Sequence": {"id": "A"}}, {"SpecialToken": {"id": "E"}}]},
    "model": {"type": "BPE", "end_of_word_suffix": "</w>", "unk_token": "<s>", "fuse_unk": true,
      "vocab": {"a": 1, "b": 2, "ab": 3, "<s>": 8, "e": 9}, "merges": ["a b"]}})";
  const Numbers numbers = numbers_of(kMutants);
  for (std::uint64_t number = numbers.first; number < numbers.end; ++number) {
    write_file(dir_ / "t.json", number == 0 ? whole : mutated_text(whole, number));
    const auto result = survive(
        {"train", "--summary", "--model", "lenet", "--task",
         "clip(16, text_depth=1, text_width=8, text_heads=1, tokenizer=" + dir_ / "t.json" + ")"},
        "tokenizer " + std::to_string(number));
    EXPECT_TRUE(number > 0 || result.status == 0) << result.err;
  }
}

// Each that is taken splits texts, too, of a few samples.
TEST_F(MutationRun, SentencePieceModels) {
  const std::string python = oracle_python("sentencepiece");
  if (python.empty()) GTEST_SKIP() << "no Python that has sentencepiece";
  ASSERT_EQ(
      run_process({python, "tests/decode/sentence_piece_oracle.py", dir_.path().string()}).status,
      0);
  const std::string whole = read_file(dir_ / "t5.model");
  const Numbers numbers = numbers_of(kMutants);
  for (std::uint64_t number = numbers.first; number < numbers.end; ++number) {
    write_file(dir_ / "m.model", number == 0 ? whole : mutated_pack(whole, number));
    const auto result =
        survive({"train", "--fast-dev-run", "--train", dir_ / "a-000000.tar", "--size", "28",
                 "--channels", "3", "--model", "lenet", "--batch-size", "2", "--task",
                 "clip(16, text_field=cls, text_depth=1, text_width=8, text_heads=1, "
                 "text_length=8, text_end=1, tokenizer=" +
                     dir_ / "m.model" + ")"},
                "model " + std::to_string(number));
    EXPECT_TRUE(number > 0 || result.status == 0) << result.err;
  }
}

// A checkpoint in mid-epoch, so that it contains a position; all files except the mutated one are
// links to it.
class RunMutants : public MutationRun {
 protected:
  RunMutants() {
    const auto result =
        millrace({"train", dir_ / "a-{000000..000001}.tar", "--model", "lenet", "--batch-size", "2",
                  "--log-steps", "1", "--val", dir_ / "a-000000.tar", "--epochs", "2", "--run-dir",
                  dir_ / "run", "--trace", dir_ / "t.json", "--trace-steps", "2:2"});
    EXPECT_EQ(result.status, 0) << result.err;
  }

  std::string mutant(std::uint64_t number) const {
    constexpr const char* kFiles[] = {"metrics.jsonl", "run.json", "metrics.jsonl", "config.json"};
    std::string folder = dir_ / "mutant-" + std::to_string(number % kRunsAPage);
    for (const char* name : {"metrics.jsonl", "run.json", "config.json"}) {
      const std::string whole = read_file(dir_ / "run/" + name);
      const bool is_mutant = std::string(name) == kFiles[number % std::size(kFiles)];
      write_file(folder + "/" + name, is_mutant ? mutated_text(whole, number) : whole);
    }
    return folder;
  }

  static constexpr std::uint64_t kRunsAPage = 10;
};

TEST_F(RunMutants, AreDrawnAsAWholePage) {
  const Numbers numbers = numbers_of(kMutants);
  for (std::uint64_t number = numbers.first; number < numbers.end; number += kRunsAPage) {
    std::vector<std::string> words = {"report", "--force", "-o", dir_ / "page.html"};
    for (std::uint64_t i = 0; i < kRunsAPage; ++i) words.push_back(mutant(number + i));
    const std::string what = "runs from " + std::to_string(number);
    EXPECT_EQ(survive(words, what).status, 0) << what;
    const auto parsed =
        run_process({"/usr/bin/python3", "tests/tools/report_page.py", dir_ / "page.html"});
    EXPECT_EQ(parsed.status, 0) << what << ": " << parsed.err;
  }
}

TEST_F(RunMutants, OfTracesAreMergedOrRefused) {
  const std::string trace = read_file(dir_ / "t.json");
  const std::string start = trace.substr(0, trace.find('\n') + 1);
  const Numbers numbers = numbers_of(kMutants / 2);
  for (std::uint64_t number = numbers.first; number < numbers.end; ++number) {
    // Every other one in its first line, which says where the trace belongs.
    write_file(dir_ / "m.json", number % 2 == 0
                                    ? mutated_text(trace, number)
                                    : mutated_text(start, number) + trace.substr(start.size()));
    survive({"trace", "merge", dir_ / "t.json", dir_ / "m.json", "--force", "-o", dir_ / "o.json"},
            "trace " + std::to_string(number));
  }
}

class CheckpointMutants : public MutationRun {
 protected:
  CheckpointMutants() {
    const auto result = millrace(train(
        {"--epochs", "100000", "--max-time", "1s", "--run-dir", dir_ / "run", "--log-steps", "0"}));
    EXPECT_EQ(result.status, 0) << result.err;
    settle_state(dir_ / "run/checkpoints/last");
  }

  /// However far the run came in its second, its state is that of the same step.
  void settle_state(const std::string& folder) {
    Json state = Json::parse(read_file(folder + "/state.json"));
    state.update({{"epoch", 1},
                  {"step_in_epoch", 4},
                  {"global_step", 16},
                  {"best", 2.5},
                  {"best_epoch", 1},
                  {"meters", {8.5, 1.0, 4.0, 4.0}}});
    state["position"].update({{"epoch", 1}, {"slots", 4}, {"turns", {0}}});
    for (Json& stream : state["position"]["streams"]) stream = {{"skip", 2}, {"ended", false}};
    const std::string text = state.dump(2);
    write_file(folder + "/state.json", text);
    put_in_manifest(folder, "state.json", text);
  }

  std::vector<std::string> train(const std::vector<std::string>& more) const {
    std::vector<std::string> words = {"train",     "--train",    dir_ / "a-{000000..000001}.tar",
                                      "--model",   "lenet",      "--size",
                                      "28",        "--channels", "1",
                                      "--classes", "10",         "--batch-size",
                                      "1",         "--shuffle",  "4"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }

  /// Only the header of a tensor file is parsed; its length is corrected.
  static std::string mutated_tensors(const std::string& file, std::uint64_t number) {
    std::uint64_t length = 0;
    std::memcpy(&length, file.data(), sizeof(length));
    const std::string header = mutated_text(file.substr(8, length), number);
    const std::uint64_t fresh = header.size();
    std::string mutant(sizeof(fresh), '\0');
    std::memcpy(mutant.data(), &fresh, sizeof(fresh));
    return mutant + header + file.substr(8 + length);
  }

  /// Updates the manifest's entry of `name`, so that the parser behind the checksum is reached.
  void put_in_manifest(const std::string& folder, const std::string& name,
                       const std::string& content) {
    Json manifest = Json::parse(read_file(folder + "/manifest.json"));
    Sha256 hash;
    hash.update(std::as_bytes(std::span(content)));
    manifest["files"][name] = {{"bytes", content.size()}, {"sha256", hash.hex()}};
    fs::remove(folder + "/manifest.json");
    write_file(folder + "/manifest.json", manifest.dump());
  }

  std::string mutant(std::uint64_t number) {
    constexpr const char* kFiles[] = {"state.json", "state.json",    "model.safetensors",
                                      "state.json", "manifest.json", "optimizer.safetensors"};
    const std::string name = kFiles[number / 2 % std::size(kFiles)];
    std::string folder = dir_ / "mutant";
    fs::remove_all(folder);
    fs::create_directory(folder);
    for (const auto& file : fs::directory_iterator(dir_ / "run/checkpoints/last"))
      fs::create_hard_link(file.path(), fs::path(folder) / file.path().filename());
    const std::string whole = read_file(folder + "/" + name);
    const bool tensors = name.ends_with(".safetensors");
    const std::string content =
        tensors ? mutated_tensors(whole, number) : mutated_text(whole, number);
    fs::remove(folder + "/" + name);
    write_file(folder + "/" + name, content);
    if (name != "manifest.json") put_in_manifest(folder, name, content);
    return folder;
  }
};

TEST_F(CheckpointMutants, AreEvaluatedOrResumedOrRefused) {
  const Numbers numbers = numbers_of(kMutants);
  for (std::uint64_t number = numbers.first; number < numbers.end; ++number) {
    const std::string folder = mutant(number);
    const std::string what = "checkpoint " + std::to_string(number);
    if (number % 2 == 0) {
      survive({"eval", "--checkpoint", folder, dir_ / "a-000000.tar"}, what);
    } else {
      survive(train({"--resume", folder, "--epochs", "2", "--run-dir", "none"}), what);
    }
  }
}

}  // namespace
}  // namespace millrace::testing
