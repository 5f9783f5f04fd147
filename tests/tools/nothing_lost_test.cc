// What create and reshard once wrote wrongly, or left out, and exited with 0.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <optional>

#include "decode/image.h"
#include "io/base/sha1.h"
#include "tests/support/nginx.h"
#include "tests/support/tar_builder.h"
#include "tests/tools/support.h"

namespace millrace::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

namespace fs = std::filesystem;

class NothingLost : public ::testing::Test {
 protected:
  ProcessResult run(const std::vector<std::string>& words, const std::string& disk = "") const {
    ProcessOptions options{.folder = dir_.path().string()};
    if (!disk.empty())
      options.environment = {{"LD_PRELOAD", MILLRACE_FAULTY_DISK},
                             {"MILLRACE_TEST_DISK", disk},
                             {"ASAN_OPTIONS", "verify_asan_link_order=0"}};
    return millrace(words, options);
  }
  void write_photos(int count) const {
    for (int i = 0; i < count; ++i)
      write_file(dir_ / ("in/b/" + std::to_string(i) + ".ppm"), "P6\n1 1\n255\nabc");
  }
  /// 20 high and 40 wide.
  std::string jpeg() const {
    EXPECT_EQ(run({"create", "made-%d.tar", "--synthetic", "classes", "--count", "1", "--size",
                   "20x40", "--format", "jpg", "--force"})
                  .status,
              0);
    return std::string(read_samples(dir_ / "made-0.tar")[0].find("jpg")->data.text());
  }

  const TempDir dir_;
};

/// The same picture that is to be turned by a quarter.
std::string turned(const std::string& jpeg) {
  const std::string exif(
      "\xff\xe1\0\x22"
      "Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0",
      36);
  return jpeg.substr(0, 2) + exif + jpeg.substr(2);
}

TEST_F(NothingLost, AClassThatCameMeanwhileIsNoContinuation) {
  write_photos(4);
  const std::vector<std::string> words = {"create", "out/s-%d.tar", "--from-folder",
                                          "in",     "--maxcount",   "1"};
  ASSERT_EQ(run(words, "kill:20").status, 128 + SIGKILL);
  ASSERT_TRUE(fs::exists(dir_ / "out/s-0.tar"));
  fs::create_directories(dir_ / "in/a");
  const auto more = run(words);
  EXPECT_EQ(more.status, 2);
  EXPECT_THAT(more.err, HasSubstr("unfinished set, of other options or inputs"));
}

TEST_F(NothingLost, ASetThatIsStoppedAtAnyRenameGoesOn) {
  write_photos(40);
  const std::vector<std::string> words = {"create",     "out/s-%d.tar", "--from-folder", "in",
                                          "--maxcount", "10",           "--threads",     "1"};
  int stopped = 0;
  for (int nth = 1; nth <= 4; ++nth) {
    fs::remove_all(dir_ / "out");
    const auto first = run(words, "stop:" + std::to_string(nth));
    stopped += first.status == 128 + SIGTERM ? 1 : 0;
    const auto again = run(words);
    EXPECT_TRUE(again.status == 0 || first.status == 0) << nth << ": " << again.err;
    EXPECT_EQ(run({"verify", "out/s-manifest.json"}).status, 0) << nth;
  }
  EXPECT_GE(stopped, 2);
}

TEST_F(NothingLost, NamesOfDecomposedUnicodeStayAsTheyAre) {
  const std::string key = "cafe\xcc\x81";
  write_file(dir_ / ("in/" + key + ".ppm"), "P6\n1 1\n255\nabc");
  ASSERT_EQ(run({"create", "s-%d.tar", "--from-folder", "in"}).status, 0);
  const auto verified = run({"verify", "s-0.tar"});
  EXPECT_EQ(verified.status, 0) << verified.err;
  ASSERT_EQ(run({"reshard", "s-0.tar", "t-%d.tar"}).status, 0);
  EXPECT_EQ(run({"verify", "t-0.tar"}).status, 0);
  EXPECT_EQ(read_samples(dir_ / "t-0.tar")[0].key, key);
}

TEST_F(NothingLost, BoxesWithoutTheirPicturesSizeAreNotLeftBehindByAResize) {
  const auto reshard = [&](const std::string& json) {
    write_file(dir_ / "in.tar",
               TarBuilder().file("k.jpg", jpeg()).file("k.json", json).end().bytes());
    return run({"reshard", "in.tar", "out-%d.tar", "--jpeg", "resize(10)", "--force"});
  };
  const auto refused = reshard(R"({"boxes": [[20, 10, 10, 10]], "labels": [3]})");
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.err, AllOf(HasSubstr("\"width\" and \"height\""), HasSubstr("k.json")));
  EXPECT_EQ(reshard(R"({"boxes": [[20, 10, 10, 10]], "width": 40, "height": 20})").status, 0);
  EXPECT_EQ(reshard(R"({"boxes": []})").status, 0);
  EXPECT_EQ(reshard(R"({"labels": [3]})").status, 0);
}

TEST_F(NothingLost, APairIsResizedAsOneOrNotAtAll) {
  const std::string photo = jpeg();
  const std::string mask = "P5\n40 20\n255\n" + std::string(800, '\1');
  const auto reshard = [&](const std::string& partner, const std::string& data) {
    write_file(dir_ / "in.tar",
               TarBuilder().file("k.jpg", photo).file("k." + partner, data).end().bytes());
    return run({"reshard", "in.tar", "out-%d.tar", "--jpeg", "resize(10)", "--force"});
  };
  const auto refused = reshard("mask.pgm", mask);
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.err, HasSubstr("jpg and mask.pgm are both 20 x 40"));
  const std::string head = "{'descr': '|u1', 'fortran_order': False, 'shape': (20, 40), }";
  const std::string npy = std::string("\x93NUMPY\1\0\x76\0", 10) + head +
                          std::string(117 - head.size(), ' ') + "\n" + std::string(800, '\1');
  EXPECT_EQ(reshard("depth.npy", npy).status, 2);
  EXPECT_EQ(reshard("thumb.pgm", "P5\n2 1\n255\nab").status, 0) << "never was of its size";
  EXPECT_EQ(reshard("next.jpg", photo).status, 0) << "becomes smaller, too";

  write_file(dir_ / "photos/a.jpg", photo);
  write_file(dir_ / "masks/a.pgm", mask);
  const auto pairs = run({"create", "p-%d.tar", "--from-folder", "photos", "--pair", "mask=masks",
                          "--jpeg", "resize(10)"});
  EXPECT_EQ(pairs.status, 2);
  EXPECT_THAT(pairs.err, HasSubstr("--jpeg resize with --pair"));
}

TEST_F(NothingLost, ARecodedPictureStandsUprightUnlessItsPairDoesNot) {
  write_file(dir_ / "in/a.jpg", turned(jpeg()));
  write_file(dir_ / "masks/a.pgm", "P5\n40 20\n255\n" + std::string(800, '\1'));
  const auto size = [&](std::vector<std::string> more, const char* suffix) {
    more.insert(more.begin(), {"create", "s-%d.tar", "--from-folder", "in", "--force"});
    const auto made = run(more);
    EXPECT_EQ(made.status, 0) << made.err;
    const auto found = decode::image_size(read_samples(dir_ / "s-0.tar")[0].find(suffix)->data,
                                          {.apply_orientation = true});
    return std::pair(found.height, found.width);
  };
  EXPECT_EQ(size({}, "jpg"), std::pair(40, 20));
  EXPECT_EQ(size({"--format", "png"}, "png"), std::pair(40, 20));
  EXPECT_EQ(size({"--resize", "10"}, "jpg"), std::pair(20, 10));
  EXPECT_EQ(size({"--jpeg", "resize(10)"}, "jpg"), std::pair(20, 10));
  EXPECT_EQ(size({"--format", "png", "--pair", "mask=masks"}, "png"), std::pair(20, 40));
}

TEST_F(NothingLost, ClassNumbersStayNumbersHoweverATableWritesThem) {
  write_photos(3);
  const auto labels = [&](const std::string& classes, const std::string& said = "") {
    write_file(dir_ / "t.csv", classes);
    const auto made = run({"create", "s-%d.tar", "--from-csv", "t.csv", "--root", "in/b", "--path",
                           "{id}.ppm", "--class", "c", "--force"});
    EXPECT_EQ(made.status, 0) << made.err;
    EXPECT_THAT(made.err, HasSubstr(said));
    EXPECT_EQ(made.err.find("numbered anew") == made.err.npos, said.empty());
    std::string all;
    for (const wds::Sample& sample : read_samples(dir_ / "s-0.tar"))
      all += std::string(sample.find("cls")->data.text()) + " ";
    return all;
  };
  EXPECT_EQ(labels("id,c\n0,2.0\n1,10.0\n2,1.0\n"), "2 10 1 ");
  EXPECT_EQ(labels("id,c\n0, 1\n1, 1\n2, 2\n"), "1 1 2 ") << "blanks around them are nothing";
  EXPECT_EQ(labels("id,c\n0, cat\n1, cat\n2, dog\n"), "0 0 1 ");
  EXPECT_EQ(labels("id,c\n0,2\n1,10\n2,1.5\n",
                   "3 classes by name, sorted and numbered anew: '1.5' is no whole number"),
            "2 1 0 ");
  for (const char* classes : {"id,c\n0, 1\n1,01\n2,2\n", "id,c\n0,cat\n1, cat\n2,dog\n"}) {
    write_file(dir_ / "t.csv", classes);
    const auto made = run({"create", "s-%d.tar", "--from-csv", "t.csv", "--root", "in/b", "--path",
                           "{id}.ppm", "--class", "c", "--force"});
    EXPECT_EQ(made.status, 1) << classes;
    EXPECT_THAT(made.err, HasSubstr("would be one class")) << classes;
  }
}

TEST_F(NothingLost, ShardsAreNotCalledPacked) {
  write_photos(1);
  for (const char* pattern : {"s-%06d.tar.gz", "s-%06d.tgz", "s-%06d.tar.zst"}) {
    const auto made = run({"create", pattern, "--from-folder", "in"});
    EXPECT_EQ(made.status, 2) << pattern;
    EXPECT_THAT(made.err, HasSubstr("end the pattern in .tar"));
    write_file(dir_ / "in.tar", TarBuilder().file("k.txt", "1").end().bytes());
    EXPECT_EQ(run({"reshard", "in.tar", pattern}).status, 2);
  }
}

TEST_F(NothingLost, AnMdsShardIsComparedWithItsChecksum) {
  const std::string shard("\1\0\0\0\x0c\0\0\0\x13\0\0\0\3\0\0\0one", 19);
  const auto create = [&](const std::string& data, const std::string& hashes) {
    write_file(dir_ / "mds/shard.00000.mds", data);
    write_file(dir_ / "mds/index.json",
               R"({"version": 2, "shards": [{"format": "mds", "column_names": ["t"],
                   "column_encodings": ["str"], "column_sizes": [null], "samples": 1,
                   "raw_data": {"basename": "shard.00000.mds", "hashes": )" +
                   hashes + R"(}, "zip_data": null, "compression": null}]})");
    return run({"create", "s-%d.tar", "--from-mds", "mds", "--force"});
  };
  Sha1 hash;
  hash.update(std::as_bytes(std::span(shard)));
  const std::string hashes = R"({"sha1": ")" + hash.hex() + R"("})";
  EXPECT_EQ(create(shard, hashes).status, 0);
  std::string flipped = shard;
  flipped.back() = 'f';
  const auto damaged = create(flipped, hashes);
  EXPECT_EQ(damaged.status, 1);
  EXPECT_THAT(damaged.err, AllOf(HasSubstr("shard.00000.mds"), HasSubstr("SHA-1")));
  EXPECT_THAT(create(shard, R"({"xxh64": "0123456789abcdef"})").err,
              HasSubstr("checksums (xxh64) are not compared"));
}

TEST_F(NothingLost, WhatMatchesNothingIsSaid) {
  write_file(dir_ / "in.tar", TarBuilder().file("k.txt", "1").end().bytes());
  EXPECT_THAT(run({"reshard", "in.tar", "a-%d.tar", "--rename", "nosuch=x"}).err,
              HasSubstr("no sample has the field nosuch"));
  EXPECT_THAT(run({"reshard", "in.tar", "b-%d.tar", "--select", "txt,jpg"}).err,
              HasSubstr("no sample has the field jpg"));
  EXPECT_THAT(run({"reshard", "in.tar", "c-%d.tar", "--rename", "txt=x", "--select", "x"}).err,
              Not(HasSubstr("no sample")));

  write_file(dir_ / "in/.a.jpg", "");
  write_photos(1);
  EXPECT_THAT(run({"create", "d-%d.tar", "--from-folder", "in"}).err,
              HasSubstr("1 name left out: hidden by a dot in front"));

  write_file(dir_ / "in/my photo.ppm", "P6\n1 1\n255\nabc");
  write_file(dir_ / "list.txt", "my photo.ppm\n");
  EXPECT_THAT(run({"create", "e-%d.tar", "--from-list", "list.txt", "--root", "in"}).err,
              HasSubstr("'my photo.ppm' is one: a line whose path has spaces ends it with a TAB"));

  write_file(dir_ / "cut.tar", read_file(dir_ / "in.tar").substr(0, 600));
  EXPECT_EQ(run({"index", "cut.tar", "--on-fault", "skip(100)"}).status, 1);
}

TEST_F(NothingLost, AShardThatGrewIsNotReadByItsOldIndex) {
  TarBuilder tar;
  tar.file("a.txt", "1");
  std::string longer = tar.bytes();
  write_file(dir_ / "s.tar", tar.end(512).bytes());
  ASSERT_EQ(run({"index", "s.tar"}).status, 0);
  longer += TarBuilder().file("b.txt", "2").end().bytes();
  write_file(dir_ / "s.tar", longer);
  std::vector<std::string> urls = {"s.tar"};
  std::optional<Nginx> nginx;
  if (!Nginx::missing()) urls.push_back(nginx.emplace(dir_.path()).url("s.tar"));
  for (const std::string& url : urls) {
    for (const char* order : {"millrace", "webdataset", "permutation"}) {
      const auto listed = run({"order", url, "--order", order});
      EXPECT_EQ(listed.status, 1) << url << order << listed.out;
      EXPECT_THAT(listed.err, HasSubstr("longer than the")) << url << order;
    }
  }
}

TEST_F(NothingLost, StatisticsAreOfWhatTheIndexSays) {
  const std::string picture = "P6\n4 4\n255\n" + std::string(std::size_t{3} * 4 * 4, 'x');
  const auto write = [&](const char* label) {
    write_file(dir_ / "s.tar",
               TarBuilder().file("a.cls", label).file("a.ppm", picture).end().bytes());
  };
  write("1");
  ASSERT_EQ(run({"index", "s.tar"}).status, 0);
  write("2");
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"stats", "s.tar"}, {"view", "s.tar", "--html", "s.html"}}) {
    const auto refused = run(words);
    EXPECT_EQ(refused.status, 1) << words[0] << refused.out;
    EXPECT_THAT(refused.err, HasSubstr("CRC-32")) << words[0];
  }
}

TEST_F(NothingLost, WhatIsListedByTheIndexOfAnotherShardIsAFault) {
  const auto write = [&](int samples, std::size_t bytes) {
    TarBuilder tar;
    for (int i = 0; i < samples; ++i)
      tar.file(std::to_string(i) + ".cls", "1")
          .file(std::to_string(i) + ".txt", std::string(bytes, 'x'));
    write_file(dir_ / "s.tar", tar.end().bytes());
    return tar.size();
  };
  const std::size_t indexed = write(6, 512);  // 6 x 2,048 bytes, and the end
  ASSERT_EQ(run({"index", "s.tar"}).status, 0);
  std::vector<std::string> urls = {"s.tar"};
  std::optional<Nginx> nginx;
  if (!Nginx::missing()) urls.push_back(nginx.emplace(dir_.path()).url("s.tar"));
  for (const std::string& url : urls) {
    ASSERT_EQ(write(2, 5'000), indexed) << "as long, with other samples in other places";
    for (const char* order : {"millrace", "webdataset"}) {
      const auto listed = run({"order", url, "--order", order});
      EXPECT_EQ(listed.status, 1) << url << order << listed.out;
      EXPECT_THAT(listed.err, AllOf(HasSubstr("s.tar.index.json"), HasSubstr("no member at byte")));
    }
    ASSERT_LT(write(1, 512), indexed);
    for (const char* order : {"millrace", "webdataset", "permutation"}) {
      const auto listed = run({"order", url, "--order", order});
      EXPECT_EQ(listed.status, 1) << url << order << listed.out;
      EXPECT_THAT(listed.err, AllOf(HasSubstr("s.tar.index.json"), HasSubstr("fewer than the")));
    }
  }
}

TEST_F(NothingLost, ClassesAreNotCountedByAnIndexThatTheShardOutgrew) {
  TarBuilder tar;
  const std::string picture = "P6\n32 32\n255\n" + std::string(std::size_t{3} * 32 * 32, 'x');
  tar.file("a.cls", "0").file("a.ppm", picture);
  std::string longer = tar.bytes();
  write_file(dir_ / "s.tar", tar.end(512).bytes());
  ASSERT_EQ(run({"index", "s.tar"}).status, 0);
  longer += TarBuilder().file("b.cls", "6").file("b.ppm", picture).end().bytes();
  write_file(dir_ / "s.tar", longer);
  std::vector<std::string> urls = {"s.tar"};
  std::optional<Nginx> nginx;
  if (!Nginx::missing()) urls.push_back(nginx.emplace(dir_.path()).url("s.tar"));
  for (const std::string& url : urls) {
    const auto trained = run({"train", url, "--model", "lenet", "--size", "32", "--batch-size", "1",
                              "--epochs", "1", "--run-dir", "none"});
    EXPECT_THAT(trained.err, HasSubstr("7 classes")) << url;
    EXPECT_EQ(trained.status, 1) << "the epoch of the one sample that the index has is a fault";
    EXPECT_THAT(trained.err, HasSubstr("shard holds more samples than its index")) << url;
  }
}

}  // namespace
}  // namespace millrace::testing
