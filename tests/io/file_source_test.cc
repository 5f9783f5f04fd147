#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>
#include <map>
#include <string>

#include "io/base/error.h"
#include "io/folder_entries.h"
#include "io/local_file.h"
#include "io/opener.h"
#include "tests/support/code_of.h"
#include "tests/support/temp_dir.h"

namespace millrace::io {
namespace {

using testing::code_of;
using testing::TempDir;
using testing::write_file;

TEST(FileSource, StartsAtTheOffset) {
  const TempDir dir;
  write_file(dir / "a", "0123456789");
  const auto source = UrlOpener().open(dir / "a", {.offset = 4});
  EXPECT_EQ(source->position(), 4U);
  EXPECT_EQ(source->size(), 10U);
  EXPECT_EQ(read_all(*source, 100).text(), "456789");
}

TEST(FileSource, ReadAllStopsAtTheLimit) {
  const TempDir dir;
  write_file(dir / "a", std::string(1000, 'x'));
  const auto source = UrlOpener().open(dir / "a");
  EXPECT_THROW(read_all(*source, 999), Error);
}

TEST(FileSource, AFileThatShrinksIsTruncatedNotEnded) {
  const TempDir dir;
  write_file(dir / "a", "0123456789");
  const auto source = UrlOpener().open(dir / "a");
  std::filesystem::resize_file(dir / "a", 4);
  try {
    read_all(*source, 100);
    FAIL() << "a shrunken file looked whole";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kTruncated);
    EXPECT_EQ(error.where().offset, 4U);
  }
}

TEST(LocalFile, IsReadWholeWithinALimit) {
  const TempDir dir;
  for (const std::size_t size : {0UL, 1UL, 4096UL, 200'000UL}) {
    write_file(dir / "a", std::string(size, 'x'));
    EXPECT_EQ(read_local_file(dir / "a", 200'000).text(), std::string(size, 'x'));
  }
  EXPECT_EQ(code_of([&] { read_local_file(dir / "a", 199'999); }), ErrorCode::kExhausted);
  EXPECT_EQ(code_of([&] { read_local_file(dir / "b", 1); }), ErrorCode::kNotFound);
  EXPECT_EQ(code_of([&] { read_local_file(dir.path().string(), 1); }), ErrorCode::kIo);
  EXPECT_FALSE(read_local_file("/proc/self/status", 1 << 20).empty()) << "it says it has no bytes";
}

TEST(FolderEntries, AreFilesFoldersAndWhatLinksLeadTo) {
  const TempDir dir;
  write_file(dir / "in/sub/x", "");
  write_file(dir / "in/.hidden", "");
  std::filesystem::create_symlink("sub", dir / "in/to-folder");
  std::filesystem::create_symlink("sub/x", dir / "in/to-file");
  std::filesystem::create_symlink("nowhere", dir / "in/to-nothing");
  std::map<std::string, bool> found;
  for (const FolderEntry& entry : entries_in(dir / "in")) found[entry.name] = entry.is_folder;
  const std::map<std::string, bool> there = {{"sub", true},
                                             {".hidden", false},
                                             {"to-folder", true},
                                             {"to-file", false},
                                             {"to-nothing", false}};
  EXPECT_EQ(found, there);
  EXPECT_EQ(code_of([&] { entries_in(dir / "none"); }), ErrorCode::kNotFound);
}

TEST(FolderEntries, OfAFolderThatIsClosedItIsSaidWhatToDo) {
  try {
    throw_unlisted("in/b", EACCES);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kPermissionDenied);
    EXPECT_TRUE(error.message().starts_with("list in/b: Permission denied: ")) << error.message();
    EXPECT_NE(error.message().find("make it readable"), std::string::npos);
  }
  EXPECT_EQ(code_of([] { throw_unlisted("in/b", EIO); }), ErrorCode::kIo);
}

}  // namespace
}  // namespace millrace::io
