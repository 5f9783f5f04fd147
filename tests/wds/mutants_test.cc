// Every mutant of a small shard: with its index all are detected; without it, as many as in the
// table of the room's README, whose 20 samples the long suite has. A partial sample is never
// emitted.
#include "tests/wds/mutants.h"

#include <archive.h>
#include <archive_entry.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <array>
#include <cstdio>
#include <map>

#include "io/base/error.h"
#include "tests/support/effort.h"
#include "tests/support/process.h"
#include "tests/support/temp_dir.h"
#include "tests/wds/memory_opener.h"
#include "wds/shard_index.h"

namespace millrace::wds {
namespace {

using testing::Damage;
using testing::kNumDamages;
using testing::MemoryOpener;
using testing::Mutant;

int num_samples() { return testing::is_long() ? 20 : testing::thinned(8); }

using Originals = std::map<std::string, Sample>;
using Counts = std::array<int, kNumDamages>;

Originals read_originals(const MemoryOpener& opener) {
  Originals originals;
  ShardReader reader(opener, "x.tar");
  for (Sample sample; reader.next(sample);) originals[sample.key] = sample;
  return originals;
}

// Complete: all members of the original, with their sizes; with an index also the same bytes.
void expect_whole(const Sample& sample, const Originals& originals, bool same_bytes) {
  const auto original = originals.find(sample.key);
  ASSERT_NE(original, originals.end()) << sample.key;
  ASSERT_EQ(sample.fields.size(), original->second.fields.size()) << sample.key;
  for (std::size_t i = 0; i < sample.fields.size(); ++i) {
    EXPECT_EQ(sample.fields[i].data.size(), original->second.fields[i].data.size());
    if (same_bytes) {
      EXPECT_EQ(sample.fields[i].data.text(), original->second.fields[i].data.text());
    }
  }
}

/// Continues after every fault; returns the number of faults.
int faults_in(const MemoryOpener& opener, const ShardOptions& options, const Originals& originals) {
  int faults = 0;
  ShardReader reader(opener, "x.tar", options);
  for (;;) {
    try {
      Sample sample;
      if (!reader.next(sample)) return faults;
      expect_whole(sample, originals, options.index != nullptr);
    } catch (const Error&) {
      ++faults;
      if (!reader.can_continue()) return faults;
    }
  }
}

bool libarchive_notices(const std::string& tar) {
  archive* handle = archive_read_new();
  archive_read_support_format_tar(handle);
  archive_read_open_memory(handle, tar.data(), tar.size());
  archive_entry* entry = nullptr;
  std::array<char, 4096> buffer{};
  int result = ARCHIVE_OK;
  while ((result = archive_read_next_header(handle, &entry)) == ARCHIVE_OK) {
    la_ssize_t got = 0;
    while ((got = archive_read_data(handle, buffer.data(), buffer.size())) > 0) {
    }
    if (got < 0) break;
  }
  archive_read_free(handle);
  return result != ARCHIVE_EOF;
}

/// For tests/wds/mutants.py: writes the shard, and its mutants as edits, to $MILLRACE_MUTANTS if
/// that is set.
void write_edits(const std::string& tar, const std::vector<Mutant>& mutants) {
  const char* place = ::getenv("MILLRACE_MUTANTS");
  if (place == nullptr) return;
  testing::write_file(std::string(place) + ".tar", tar);
  std::string edits;
  for (const Mutant& mutant : mutants) edits += testing::edit_of(mutant, tar) + "\n";
  testing::write_file(std::string(place) + ".edits", edits);
}

TEST(Mutants, AreAllFoundWithAnIndexAndNeverGiveAPartialSample) {
  MemoryOpener opener;
  const int samples = num_samples();
  const std::string tar = testing::small_shard(samples);
  opener.files["x.tar"] = tar;
  const Originals originals = read_originals(opener);
  ASSERT_EQ(originals.size(), static_cast<std::size_t>(samples));
  ShardOptions with_index;
  with_index.index = std::make_shared<const ShardIndex>(build_index(opener, "x.tar"));
  EXPECT_EQ(faults_in(opener, with_index, originals), 0);

  Counts all{}, indexed{}, plain{}, libarchive{};
  std::vector<Mutant> mutants = testing::mutants_of(tar, samples);
  write_edits(tar, mutants);
  for (Mutant& mutant : mutants) {
    const auto kind = static_cast<std::size_t>(mutant.damage);
    opener.files["x.tar"] = mutant.tar;
    ++all[kind];
    indexed[kind] += faults_in(opener, with_index, originals) > 0 ? 1 : 0;
    plain[kind] += faults_in(opener, {}, originals) > 0 ? 1 : 0;
    libarchive[kind] += libarchive_notices(mutant.tar) ? 1 : 0;
  }
  std::printf("%-38s %7s %7s %7s %10s\n", "", "mutants", "index", "plain", "libarchive");
  for (std::size_t kind = 0; kind < kNumDamages; ++kind) {
    std::printf("%-38s %7d %7d %7d %10d\n", testing::damage_name(static_cast<Damage>(kind)),
                all[kind], indexed[kind], plain[kind], libarchive[kind]);
    EXPECT_EQ(indexed[kind], all[kind]) << testing::damage_name(static_cast<Damage>(kind));
  }
  for (const Damage damage : {Damage::kCutPayload, Damage::kCutHeader, Damage::kZeroedHeader}) {
    const auto kind = static_cast<std::size_t>(damage);
    EXPECT_EQ(plain[kind], all[kind]) << "found without an index too";
  }
}

}  // namespace
}  // namespace millrace::wds
