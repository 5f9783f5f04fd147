// create and reshard with --jpeg and --image, and stats --storage.
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
class PictureRecoding : public ::testing::Test {
 protected:
  PictureRecoding() {
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

  nlohmann::json manifest_of(const std::string& name) {
    return nlohmann::json::parse(read_file(dir_ / (name + "/s-manifest.json")));
  }
  std::string jpeg_of(const std::string& name) { return manifest_of(name).value("jpeg", ""); }

  /// Of all samples, by key: suffix and data of the field that is not the label.
  std::map<std::string, wds::Field> fields(const std::string& name) {
    std::map<std::string, wds::Field> all;
    for (int shard = 0; shard < 3; ++shard)
      for (const wds::Sample& sample :
           read_samples(dir_ / (name + "/s-" + std::to_string(shard) + ".tar")))
        for (const wds::Field& field : sample.fields)
          if (field.suffix != "cls") all[sample.key] = field;
    return all;
  }
  static bool is_sound(const std::string& key) {
    return key.substr(2) != "7" && key.substr(2) != "8";
  }

  const TempDir dir_;
  const std::string photos_ = dir_ / "photos/";
};

TEST_F(PictureRecoding, OfCreateKeepsThePixelsAndSaysWhatItLeft) {
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

TEST_F(PictureRecoding, OfReshardWritesWhatCreateWrites) {
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

TEST_F(PictureRecoding, VerifyFindsTheSetWhole) {
  std::filesystem::remove(photos_ + "b/7.jpg");
  std::filesystem::remove(photos_ + "a/8.jpg");
  create("new", {"--jpeg", "restarts"});
  const auto result = millrace({"verify", dir_ / "new/s-manifest.json"});
  EXPECT_EQ(result.status, 0) << result.out << result.err;
}

TEST_F(PictureRecoding, IsPartOfASetsOptions) {
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

TEST_F(PictureRecoding, ResizedJpegsAreSmallerAndTheManifestSaysHow) {
  create("plain");
  const auto result = create("new", {"--jpeg", "resize(20, quality=80)"});
  EXPECT_THAT(result.err, HasSubstr("18 JPEGs resized to 20 px (-"));
  EXPECT_THAT(result.err, HasSubstr("1 left as it is: not JPEG, 1 left as it is: damaged"));
  for (const auto& [key, field] : fields("new"))
    if (is_sound(key)) {
      const decode::ImageSize size = decode::image_size(field.data);
      EXPECT_EQ(std::pair(size.height, size.width), std::pair(20, 100)) << key;
    }
  EXPECT_EQ(jpeg_of("new"), "resize(shorter=20, quality=80, only_larger, restarts=false)");
  const auto larger = create("same", {"--jpeg", "resize(40)"});
  EXPECT_THAT(larger.err, HasSubstr("0 JPEGs resized to 40 px, 18 left as they are: not larger"));
  const auto plain = pictures("plain");
  for (const auto& [key, data] : pictures("same")) EXPECT_EQ(data.text(), plain.at(key).text());
  const auto marked = create("marked", {"--jpeg", "resize(40, restarts)"});
  EXPECT_THAT(marked.err, HasSubstr("18 JPEGs resized to 40 px, with restart markers"));
}

TEST_F(PictureRecoding, RawPicturesHaveTheSamePixels) {
  create("plain");
  const auto result = create("new", {"--image", "raw"});
  EXPECT_THAT(result.err, HasSubstr("18 pictures stored raw (+"));
  EXPECT_THAT(result.err, HasSubstr("2 left as they are: damaged"));
  const auto before = fields("plain");
  for (const auto& [key, field] : fields("new")) {
    EXPECT_EQ(field.suffix, is_sound(key) ? "ppm" : "jpg") << key;
    if (!is_sound(key)) continue;
    EXPECT_EQ(decode::decode_image(field.data).pixels.text(),
              decode::decode_image(before.at(key).data).pixels.text());
  }
  EXPECT_EQ(manifest_of("new").value("image", ""), "raw(pixels=none, share=1, suffixes=[])");
  EXPECT_EQ(jpeg_of("new"), "");
}

TEST_F(PictureRecoding, AMixtureIsBySizeOrByShare) {
  create("few", {"--image", "raw(7999)"});  // 40 x 200 are one more
  for (const auto& [key, field] : fields("few")) EXPECT_EQ(field.suffix, "jpg") << key;
  const auto small = create("small", {"--jpeg", "resize(20)", "--image", "raw(2000)"});
  EXPECT_THAT(small.err, HasSubstr("18 JPEGs resized to 20 px"));
  EXPECT_THAT(small.err, HasSubstr("18 pictures stored raw"));
  const auto count = [&](const std::string& name) {
    int raw = 0;
    for (const auto& [key, field] : fields(name)) raw += field.suffix == "ppm" ? 1 : 0;
    return raw;
  };
  create("half", {"--image", "raw(share=0.5)"});
  create("again", {"--image", "raw(share=0.5)", "--threads", "1"});
  create("others", {"--image", "raw(suffixes=[png, mask.png])"});
  EXPECT_EQ(count("others"), 0);
  EXPECT_GT(count("half"), 2);
  EXPECT_LT(count("half"), 16);
  EXPECT_EQ(read_file(dir_ / "half/s-1.tar"), read_file(dir_ / "again/s-1.tar"));
  create("plain");
  const auto after = millrace({"reshard", dir_ / "plain/s-manifest.json", dir_ / "re/s-%d.tar",
                               "--maxcount", "7", "--image", "raw(share=0.5)"});
  EXPECT_EQ(after.status, 0) << after.err;
  EXPECT_EQ(read_file(dir_ / "re/s-1.tar"), read_file(dir_ / "half/s-1.tar"));
}

TEST_F(PictureRecoding, VerifySaysHowTheyAreStored) {
  std::filesystem::remove(photos_ + "b/7.jpg");
  std::filesystem::remove(photos_ + "a/8.jpg");
  create("new", {"--jpeg", "resize(20)", "--image", "raw(share=0.5)"});
  const auto result = millrace({"verify", dir_ / "new/s-manifest.json"});
  EXPECT_EQ(result.status, 0) << result.out << result.err;
  EXPECT_THAT(result.out,
              HasSubstr("3 shards with pictures stored by --jpeg resize(shorter=20, "
                        "quality=90, only_larger, restarts=false) --image "
                        "raw(pixels=none, share=0.5, suffixes=[]), as the manifest says"));
  const auto json = millrace({"verify", dir_ / "new/s-manifest.json", "--json"});
  EXPECT_EQ(nlohmann::json::parse(json.out)["stored"][0]["shards"], 3);
}

TEST_F(PictureRecoding, StatsMeasuresWhatOtherWaysWouldCostAndBring) {
  std::filesystem::remove(photos_ + "b/7.jpg");
  std::filesystem::remove(photos_ + "a/8.jpg");
  create("plain");
  const auto result = millrace({"stats", dir_ / "plain/s-manifest.json", "--storage", "--size",
                                "16", "--threads", "1", "--json"});
  ASSERT_EQ(result.status, 0) << result.err;
  const auto storage = nlohmann::json::parse(result.out)["storage"];
  EXPECT_EQ(storage["pictures"], 18);
  std::map<std::string, nlohmann::json> ways;
  for (const auto& way : storage["ways"]) ways[way["options"]] = way;
  ASSERT_TRUE(ways.contains("") && ways.contains("--image raw") &&
              ways.contains("--jpeg 'resize(18)'"))
      << storage;
  std::uint64_t bytes = 0;
  for (const auto& [key, field] : fields("plain")) bytes += field.data.size();
  EXPECT_EQ(ways[""]["bytes"], bytes);
  EXPECT_EQ(ways[""]["images_per_s_ratio"], 1);
  EXPECT_GT(ways["--image raw"]["bytes"], 18 * 40 * 200 * 3);
  EXPECT_LT(ways["--jpeg 'resize(18)'"]["bytes_ratio"], 1);
  for (const auto& [options, way] : ways) EXPECT_GT(way["images_per_s"], 0) << options;
  EXPECT_EQ(millrace({"stats", dir_ / "plain/s-manifest.json", "--size", "9"}).status, 2)
      << "--size is --storage's";
}

}  // namespace
}  // namespace millrace::testing
