// We read the same keys and fields from a set of tars as Python's webdataset. Skipped without a
// Python that has webdataset (MILLRACE_ORACLE_PYTHON).
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <sstream>

#include "io/base/error.h"
#include "io/base/hash.h"
#include "io/opener.h"
#include "tests/support/process.h"
#include "tests/support/tar_builder.h"
#include "tests/support/temp_dir.h"
#include "wds/shard_reader.h"

namespace millrace::wds {
namespace {

using testing::TarBuilder;
using testing::TarFormat;
using testing::TempDir;

using Lines = std::map<std::string, std::vector<std::string>>;  // per file

std::string all_names(TarFormat format) {
  TarBuilder tar;
  for (const char* name :
       {"a.jpg",     "a.SEG.png",     "d.x/a.jpg",  "./a.jpg",     "a b.seg.PNG",  "c.",
        "c..b",      "/abs/a.jpg",    "d//a.jpg",   ".hidden",     "./.hidden",    "..a.jpg",
        "d/.hidden", "d/..a.jpg",     "d/x/.y.jpg", "noext",       "d.x/noext",    "d/__x__",
        "a.b/.c",    "__meta__.json", "__index__",  "__d__/a.txt", "e/__x__/a.txt"}) {
    tar.file(name, std::string("data of ") + name, format);
  }
  return tar.end().bytes();
}

// One tar for each kind of content; each is also read packed in three ways.
std::map<std::string, std::string> tars() {
  const std::string long_name = std::string(150, 'n') + ".jpg";
  std::map<std::string, std::string> set;
  set["names_v7"] = all_names(TarFormat::kV7);
  set["names_ustar"] = all_names(TarFormat::kUstar);
  set["names_gnu"] = all_names(TarFormat::kGnu);
  // Without a hard link, which WebDataset skips and millrace reads.
  set["kinds"] = TarBuilder()
                     .header({.name = "d/", .type = '5'})
                     .file("d/a.jpg", "A")
                     .header({.name = "d/l.jpg", .type = '2', .link = "a.jpg"})
                     .header({.name = "d/f.jpg", .type = '6'})
                     .file("d/a.cls", "1")
                     .header({.name = "d/c.jpg", .size = 2, .type = '7'})
                     .payload("C7")
                     .end()
                     .bytes();
  set["long_gnu"] = TarBuilder().gnu_file(long_name, "x").file("b.cls", "1").end().bytes();
  set["long_pax"] = TarBuilder().pax_file("s.jpg", "x", {{"path", long_name}}).end().bytes();
  set["utf8_pax"] =
      TarBuilder().pax_file("s.jpg", "x", {{"path", "\xE6\x97\xA5/\xC3\xA4.JPG"}}).end().bytes();
  set["pax_size"] = TarBuilder().pax_file("s.jpg", "12345", {{"size", "5"}}).end().bytes();
  set["binary_size"] = TarBuilder()
                           .header({.name = "b.jpg", .size = 3, .binary_size = true})
                           .payload("abc")
                           .end()
                           .bytes();
  set["empty_fields"] = TarBuilder().file("a.x", "").file("a.y", "").end().bytes();
  set["no_members"] = TarBuilder().end().bytes();
  set["twice"] = TarBuilder().file("a.x", "1").file("a.X", "2").end().bytes();
  return set;
}

Lines python_reads(const std::string& python, const TempDir& dir) {
  const auto result = testing::run_process({python, "tests/wds/parity.py", dir.path().string()});
  EXPECT_EQ(result.status, 0) << result.err;
  Lines lines;
  std::istringstream text(result.out);
  for (std::string line; std::getline(text, line);) {
    const std::size_t tab = line.find('\t');
    std::string rest = line.substr(tab + 1);
    lines[line.substr(0, tab)].push_back(rest.starts_with("!") ? "!" : rest);
  }
  return lines;
}

std::vector<std::string> we_read(const std::string& path) {
  std::vector<std::string> lines;
  try {
    const io::UrlOpener opener;
    ShardReader reader(opener, path);
    for (Sample sample; reader.next(sample);) {
      for (const Field& field : sample.fields) {
        char crc[9];
        std::snprintf(crc, sizeof crc, "%08x", crc32(field.data.span()));
        lines.push_back(sample.key + "\t" + field.suffix + "\t" + crc);
      }
    }
  } catch (const Error& error) {
    lines.emplace_back("!");
  }
  return lines;
}

TEST(Parity, WeReadWhatWebDatasetReads) {
  const std::string python = testing::oracle_python("webdataset");
  if (python.empty()) GTEST_SKIP() << "no Python with webdataset";
  const TempDir dir;
  for (const auto& [name, tar] : tars()) testing::write_file(dir / (name + ".tar"), tar);
  Lines theirs = python_reads(python, dir);
  int compared = 0;
  for (const auto& entry : std::filesystem::directory_iterator(dir.path())) {
    const std::string name = entry.path().filename().string();
    std::vector<std::string> ours = we_read(entry.path().string());
    EXPECT_EQ(ours, theirs[name]) << name;
    ++compared;
  }
  EXPECT_GE(compared, 60);
}

}  // namespace
}  // namespace millrace::wds
