#include "io/base/file_lock.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "io/base/error.h"
#include "tests/support/temp_dir.h"

namespace millrace {
namespace {

TEST(FileLock, IsGivenToOneAtATime) {
  const testing::TempDir dir;
  auto lock = FileLock::try_take(dir / "lock");
  ASSERT_NE(lock, nullptr);
  EXPECT_EQ(FileLock::try_take(dir / "lock"), nullptr);
  lock.reset();
  EXPECT_NE(FileLock::try_take(dir / "lock"), nullptr);
  EXPECT_TRUE(std::filesystem::exists(dir / "lock"));
}

TEST(FileLock, KnowsWhetherItsFileIsStillThere) {
  const testing::TempDir dir;
  const auto lock = FileLock::try_take(dir / "lock");
  EXPECT_TRUE(lock->in_place());
  lock->remove();
  EXPECT_FALSE(lock->in_place());
  const auto other = FileLock::try_take(dir / "lock");
  EXPECT_TRUE(other->in_place());
  EXPECT_FALSE(lock->in_place()) << "it is another file by the same name";
  EXPECT_NO_THROW(lock->remove());
  EXPECT_NO_THROW(lock->remove()) << "there is none any more";
}

TEST(FileLock, NeedsAFolderThatIsThere) {
  const testing::TempDir dir;
  EXPECT_THROW(FileLock::try_take(dir / "none/lock"), Error);
}

}  // namespace
}  // namespace millrace
