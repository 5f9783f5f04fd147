// Oracle: a test that asks PIL and torchvision (oracle.py). Skipped if Python lacks them.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "io/bytes.h"
#include "tests/support/temp_dir.h"

namespace millrace::testing {

inline std::string oracle_python() {
  const char* given = std::getenv("MILLRACE_ORACLE_PYTHON");
  return given != nullptr ? given : "build/oracle/bin/python";
}

inline bool oracle_runs(const std::string& arguments) {
  const std::string command = oracle_python() + " " + arguments + " 2>/dev/null";
  return std::system(command.c_str()) == 0;  // NOLINT: the test's own words
}

class Oracle : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!oracle_runs("-c 'import PIL, numpy, torchvision'")) {
      GTEST_SKIP() << oracle_python() << " does not run, or has no PIL, numpy and torchvision";
    }
  }

  void add_file(const std::string& name, const io::Bytes& file) {
    write_file(dir_ / name, file.text());
  }

  void add_case(const std::string& json) { cases_ += (cases_.empty() ? "[" : ",") + json; }

  void ask() {
    write_file(dir_ / "cases.json", cases_ + "]");
    ASSERT_TRUE(oracle_runs("tests/decode/oracle.py " + dir_.path().string()));
  }

  std::vector<std::uint8_t> answer(int i) {
    const std::string raw = read_file(dir_ / (std::to_string(i) + ".raw"));
    return {raw.begin(), raw.end()};
  }

  TempDir dir_;
  std::string cases_;
};

}  // namespace millrace::testing
