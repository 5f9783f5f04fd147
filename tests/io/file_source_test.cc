#include <gtest/gtest.h>

#include "io/base/error.h"
#include "io/opener.h"
#include "tests/support/temp_dir.h"

namespace millrace::io {
namespace {

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

}  // namespace
}  // namespace millrace::io
