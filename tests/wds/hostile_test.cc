// Bombs and hostile tars: refused within a second and 16 MiB of growth.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "io/base/error.h"
#include "tests/support/tar_builder.h"
#include "tests/wds/memory_opener.h"
#include "wds/shard_reader.h"

namespace millrace::wds {
namespace {

using testing::MemoryOpener;
using testing::TarBuilder;
using testing::TarHeader;

long peak_kib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

std::optional<ErrorCode> first_fault(const std::string& tar, bool knows_size) {
  MemoryOpener opener;
  opener.files["x.tar"] = tar;
  opener.knows_size = knows_size;
  ShardReader reader(opener, "x.tar");
  try {
    for (Sample sample; reader.next(sample);) {
    }
  } catch (const Error& error) {
    return error.code();
  }
  return {};
}

TEST(Hostile, ClaimsAreCheckedBeforeAllocating) {
  constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;
  const std::string many(2 * 1024 * 1024, 'a');
  const std::pair<const char*, std::string> tars[] = {
      {"512 bytes claim 1 GiB", TarBuilder().header({.name = "a.x", .size = kGiB}).bytes()},
      {"512 bytes claim 16 GiB",
       TarBuilder().header({.name = "a.x", .size = 16 * kGiB, .binary_size = true}).bytes()},
      {"2^63 bytes",
       TarBuilder()
           .header({.name = "a.x", .size = ~std::uint64_t{0} >> 1, .binary_size = true})
           .end()
           .bytes()},
      {"sparse", TarBuilder().header({.name = "a.x", .size = 0, .type = 'S'}).end().bytes()},
      {"sparse by pax",
       TarBuilder().pax_file("a.x", "", {{"GNU.sparse.realsize", "60000000000"}}).end().bytes()},
      {"pax of 2 MiB", TarBuilder().pax_file("a.x", "", {{"comment", many}}).end().bytes()},
      {"pax claims 4 GiB",
       TarBuilder().header({.name = "p", .size = 4 * kGiB, .type = 'x'}).end().bytes()},
      {"long name of 2 MiB", TarBuilder().gnu_file(many, "").end().bytes()},
      {"name of 5 KiB", TarBuilder().gnu_file(many.substr(0, 5000) + ".x", "").end().bytes()},
      {"NUL in pax path",
       TarBuilder().pax_file("a.x", "", {{"path", std::string("a\0b.x", 5)}}).end().bytes()},
      {"pax path twice",
       TarBuilder().pax_file("a.x", "", {{"path", "b.x"}, {"path", "c.x"}}).end().bytes()},
      {"invalid UTF-8", TarBuilder().file("a\xFF.x", "1").end().bytes()},
      {"pax without a member", TarBuilder().header({.name = "p", .type = 'x'}).bytes()},
  };
  for (const auto& [what, tar] : tars) {
    for (const bool knows_size : {true, false}) {
      const long before = peak_kib();
      EXPECT_TRUE(first_fault(tar, knows_size).has_value()) << what;
      EXPECT_LT(peak_kib() - before, 16 * 1024) << what;
    }
  }
}

// Its size is that of the holes too, which may be more than the tar has left.
TEST(Hostile, ASparseMemberIsNotCalledTruncated) {
  TarHeader gnu{.name = "a.x", .size = 1 << 20, .type = 'S', .format = testing::TarFormat::kGnu};
  EXPECT_EQ(first_fault(TarBuilder().header(gnu).end().bytes(), true), ErrorCode::kUnsupported);
  const std::vector<std::pair<std::string, std::string>> holes = {
      {"GNU.sparse.major", "1"},
      {"GNU.sparse.minor", "0"},
      {"GNU.sparse.name", "a.x"},
      {"GNU.sparse.realsize", "1048576"}};
  const std::string map = "1\n1048576\n0\n" + std::string(500, '\0');
  EXPECT_EQ(first_fault(TarBuilder().pax_file("a.x", map, holes).end().bytes(), true),
            ErrorCode::kUnsupported);
}

TEST(Hostile, AVolumeLabelIsNoFault) {
  TarBuilder label;
  label.header({.name = "label", .type = 'V', .format = testing::TarFormat::kGnu});
  std::string tar = label.bytes();
  tar.replace(124, 12, 12, '\0');
  testing::fix_checksum(tar, 0);
  tar += TarBuilder().file("a.x", "1").end().bytes();
  EXPECT_FALSE(first_fault(tar, true).has_value());
}

}  // namespace
}  // namespace millrace::wds
