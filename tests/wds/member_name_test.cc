#include "wds/member_name.h"

#include <gtest/gtest.h>

#include "io/base/error.h"

namespace millrace::wds {
namespace {

/// "key|suffix", or "-" for a member that belongs to no sample.
std::string split(std::string_view path) {
  const auto name = split_member_name(path);
  return name ? std::string(name->key) + "|" + name->suffix : "-";
}

TEST(MemberName, SplitsAsWebDatasetDoes) {
  const std::pair<const char*, const char*> table[] = {
      {"a.jpg", "a|jpg"},
      {"d.x/a.jpg", "d.x/a|jpg"},
      {"./a.jpg", "./a|jpg"},
      {"a b.seg.PNG", "a b|seg.png"},
      {"a.", "a|"},
      {"a..b", "a|.b"},
      {"/abs/a.jpg", "/abs/a|jpg"},
      {"d//a.jpg", "d//a|jpg"},
      {".hidden", "-"},
      {"./.hidden", "-"},
      {"..a.jpg", "-"},
      {"d/.hidden", "d/|hidden"},
      {"d/x/.y.jpg", "d/x/|y.jpg"},
      {"d/..a.jpg", "d/|.a.jpg"},
      {"noext", "-"},
      {"d.x/noext", "-"},
      {"d/__x__", "-"},
      {"a.b/.c", "-"},
      {"__meta__.json", "__meta__|json"},
      {"a.b/c/.d", "a.b/c/|d"},
      {"a.b//.c", "a.b//|c"},
      {"/.a", "/|a"},
      {"a\n/b.jpg", "a\n/b|jpg"},
      {"a.jp\ng", "a|jp\ng"},
      {"", "-"},
      {".", "-"},
      {"/", "-"},
  };
  for (const auto& [path, expected] : table) EXPECT_EQ(split(path), expected) << path;
}

TEST(MemberName, KnowsMetadataMembers) {
  for (const char* path : {"__index__", "____", "__d__/a.txt", "__a.b__"}) {
    EXPECT_TRUE(is_metadata_member(path)) << path;
  }
  for (const char* path : {"d/__x__/a.txt", "__meta__.json", "a__", "__a/b", "__/a"}) {
    EXPECT_FALSE(is_metadata_member(path)) << path;
  }
}

TEST(MemberName, RefusesWhatIsNotText) {
  const std::string bad[] = {"",
                             std::string("a\0.jpg", 6),
                             std::string(5000, 'a') + ".jpg",
                             "a\xFF.jpg",
                             "\xC0\x80.jpg",
                             "\xED\xA0\x80.jpg",
                             "a\xC3"};
  for (const std::string& path : bad) EXPECT_THROW(check_member_name(path), Error) << path;
  EXPECT_NO_THROW(check_member_name("\xC3\xA4/\xE6\x97\xA5\xF0\x9F\x90\x8E.jpg"));
}

}  // namespace
}  // namespace millrace::wds
