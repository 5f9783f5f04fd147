// Oracle: a test that asks PIL and torchvision (oracle.py), of a Python that imports them once for
// all tests of the process. Skipped if Python lacks them.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "io/bytes.h"
#include "tests/support/process.h"
#include "tests/support/python_worker.h"
#include "tests/support/temp_dir.h"

namespace millrace::testing {

class Oracle : public ::testing::Test {
 protected:
  void SetUp() override {
    python_ = oracle_python("PIL, numpy, torchvision");
    if (python_.empty()) GTEST_SKIP() << "no Python that has PIL, numpy and torchvision";
  }

  void add_file(const std::string& name, const io::Bytes& file) {
    write_file(dir_ / name, file.text());
  }

  void add_case(const std::string& json) { cases_ += (cases_.empty() ? "[" : ",") + json; }

  void ask() {
    write_file(dir_ / "cases.json", cases_ + "]");
    static PythonWorker worker(python_, "PIL.Image,numpy,torchvision");
    ASSERT_EQ(0, worker.run({"tests/decode/oracle.py", dir_.path().string()}));
  }

  std::vector<std::uint8_t> answer(int i) {
    const std::string raw = read_file(dir_ / (std::to_string(i) + ".raw"));
    return {raw.begin(), raw.end()};
  }

  TempDir dir_;
  std::string python_;
  std::string cases_;
};

}  // namespace millrace::testing
