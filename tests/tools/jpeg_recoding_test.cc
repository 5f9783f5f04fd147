// create and reshard with --jpeg restarts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "decode/image.h"
#include "tests/support/tar_builder.h"
#include "tests/tools/support.h"
#include "wds/sample.h"

namespace millrace::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

/// JPEGs of 40 x 200 in class folders, a PNG that is called one, and one that is cut.
class JpegRecoding : public ::testing::Test {
 protected:
  JpegRecoding() {
    EXPECT_EQ(millrace({"create", dir_ / "made-%06d.tar", "--synthetic", "classes", "--classes",
                        "2", "--count", "20", "--size", "40x200", "--format", "jpg"})
                  .status,
              0);
    const auto samples = read_samples(dir_ / "made-000000.tar");
    for (std::size_t i = 0; i < samples.size(); ++i) {
      const std::string label = i % 2 == 0 ? "a/" : "b/";
      std::string data(samples[i].find("jpg")->data.text());
      if (i == 7) data.resize(data.size() / 2);
      if (i == 8) data = "\x89PNG\r\n\x1a\n" + data;
      put(photos_ + label + std::to_string(i) + ".jpg", data);
    }
  }

  static void put(const std::string& path, const std::string& data) {
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    write_file(path, data);
  }

  ProcessResult create(const std::string& name, const std::vector<std::string>& more = {},
                       int status = 0) {
    std::vector<std::string> words = {
        "create", dir_ / (name + "/s-%d.tar"), "--maxcount", "7", "--from-folder", dir_ / "photos"};
    words.insert(words.end(), more.begin(), more.end());
    ProcessResult result = millrace(words);
    EXPECT_EQ(result.status, status) << result.err;
    return result;
  }

  std::map<std::string, io::Bytes> pictures(const std::string& name) {
    std::map<std::string, io::Bytes> all;
    for (int shard = 0; shard < 3; ++shard)
      for (const wds::Sample& sample :
           read_samples(dir_ / (name + "/s-" + std::to_string(shard) + ".tar")))
        all[sample.key] = sample.find("jpg")->data;
    return all;
  }

  void expect_recoded(const std::string& name, const std::string& original) {
    const auto before = pictures(original);
    const auto after = pictures(name);
    ASSERT_EQ(after.size(), before.size());
    int recoded = 0;
    for (const auto& [key, data] : before) {
      const bool sound = key.substr(2) != "7" && key.substr(2) != "8";
      const io::Bytes& now = after.at(key);
      EXPECT_EQ(now.text() == data.text(), !sound) << key;
      EXPECT_EQ(now.text().find(std::string_view("\xff\xdd\0\x04", 4)) != std::string_view::npos,
                sound)
          << key;
      if (!sound) continue;
      ++recoded;
      EXPECT_EQ(decode::decode_image(now).pixels.text(), decode::decode_image(data).pixels.text());
    }
    EXPECT_EQ(recoded, 18);
  }

  std::string jpeg_of(const std::string& name) {
    const auto manifest = nlohmann::json::parse(read_file(dir_ / (name + "/s-manifest.json")));
    return manifest.value("jpeg", "");
  }

  const TempDir dir_;
  const std::string photos_ = dir_ / "photos/";
};

TEST_F(JpegRecoding, OfCreateKeepsThePixelsAndSaysWhatItLeft) {
  const auto plain = create("plain");
  const auto result = create("new", {"--jpeg", "restarts"});
  EXPECT_THAT(result.err, HasSubstr("20 samples in 3 shards; 18 JPEGs re-coded with restart "
                                    "markers"));
  EXPECT_THAT(result.err, HasSubstr("1 left as it is: not JPEG, 1 left as it is: damaged"));
  EXPECT_THAT(plain.err, Not(HasSubstr("JPEG")));
  expect_recoded("new", "plain");
  EXPECT_EQ(jpeg_of("new"), "restarts");
  EXPECT_EQ(jpeg_of("plain"), "");
}

TEST_F(JpegRecoding, OfReshardWritesWhatCreateWrites) {
  create("plain");
  create("new", {"--jpeg", "restarts"});
  const auto result = millrace({"reshard", dir_ / "plain/s-manifest.json", dir_ / "re/s-%d.tar",
                                "--maxcount", "7", "--jpeg", "restarts"});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("18 JPEGs re-coded with restart markers"));
  for (const char* shard : {"s-0.tar", "s-1.tar", "s-2.tar"})
    EXPECT_EQ(read_file(dir_ / ("re/" + std::string(shard))),
              read_file(dir_ / ("new/" + std::string(shard))))
        << shard;
  EXPECT_EQ(jpeg_of("re"), "restarts");
}

TEST_F(JpegRecoding, VerifyFindsTheSetWhole) {
  std::filesystem::remove(photos_ + "b/7.jpg");
  std::filesystem::remove(photos_ + "a/8.jpg");
  create("new", {"--jpeg", "restarts"});
  const auto result = millrace({"verify", dir_ / "new/s-manifest.json"});
  EXPECT_EQ(result.status, 0) << result.out << result.err;
}

TEST_F(JpegRecoding, IsPartOfASetsOptions) {
  create("whole", {"--jpeg", "restarts"});
  const ProcessOptions killed{.environment = {{"LD_PRELOAD", MILLRACE_FAULTY_DISK},
                                              {"MILLRACE_TEST_DISK", "kill:25"},
                                              {"ASAN_OPTIONS", "verify_asan_link_order=0"}}};
  const auto words = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all = {"create", dir_ / "new/s-%d.tar", "--maxcount",
                                    "7",      "--from-folder",       dir_ / "photos"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  ASSERT_EQ(millrace(words({"--jpeg", "restarts", "--threads", "1"}), killed).status,
            128 + SIGKILL);
  ASSERT_TRUE(std::filesystem::exists(dir_ / "new/s-0.tar"));
  const auto other = create("new", {}, 2);
  EXPECT_THAT(other.err, HasSubstr("of an unfinished set, of other options"));
  create("new", {"--jpeg", "restarts"});
  for (const char* shard : {"s-0.tar", "s-1.tar", "s-2.tar"})
    EXPECT_EQ(read_file(dir_ / ("new/" + std::string(shard))),
              read_file(dir_ / ("whole/" + std::string(shard))))
        << shard;
  create("more", {"--jpeg", "resize"}, 2);
}

}  // namespace
}  // namespace millrace::testing
