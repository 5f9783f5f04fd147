#include "io/bytes.h"

#include <gtest/gtest.h>

namespace millrace::io {
namespace {

TEST(Bytes, SliceSharesTheData) {
  Bytes slice;
  const std::byte* where = nullptr;
  {
    const Bytes all = Bytes::copy_of("hello world");
    where = all.data() + 6;
    slice = all.slice(6, 5);
  }
  EXPECT_EQ(slice.text(), "world");
  EXPECT_EQ(slice.data(), where);
}

TEST(BytesDeathTest, SliceOutsideIsABug) {
  const Bytes all = Bytes::copy_of("abc");
  EXPECT_DEATH(all.slice(2, 2), "lies inside");
}

}  // namespace
}  // namespace millrace::io
