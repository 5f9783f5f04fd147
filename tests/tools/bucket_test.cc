// Buckets as folders, by the program: against real server programs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "io/opener.h"
#include "tests/support/bucket_server.h"
#include "tests/tools/support.h"

namespace millrace::testing {
namespace {

using ::testing::HasSubstr;

class BucketCommands : public ::testing::TestWithParam<BucketServer::Kind> {};

/// What an upload by hand would leave: the folder's files as objects.
void copy_folder(const std::string& folder, const BucketServer& server) {
  const io::UrlOpener opener({.object_stores = server.options()});
  for (const std::string& name : list_dir(folder)) {
    if (!std::filesystem::is_regular_file(folder + "/" + name)) continue;
    const std::string content = read_file(folder + "/" + name);
    const auto sink = opener.open_sink(server.url("data/" + name));
    sink->write(std::as_bytes(std::span(content)));
    sink->finish();
  }
}

std::string without_folders(std::string lines, const std::string& folder) {
  for (std::size_t at; (at = lines.find(folder)) != std::string::npos;)
    lines.erase(at, folder.size());
  return lines;
}

TEST_P(BucketCommands, ListAndReadAFolderAsOnDisk) {
  if (const auto reason = BucketServer::missing(GetParam())) GTEST_SKIP() << *reason;
  const BucketServer server(GetParam());
  const TempDir dir;
  make_set(dir, 30, 10);
  copy_folder(dir.path().string(), server);
  const ProcessOptions with{.environment = server.environment()};

  const ProcessResult folder = millrace({"ls", "--json", server.url()}, with);
  EXPECT_EQ(folder.status, 0) << folder.err;
  EXPECT_EQ(folder.out, "{\"url\":\"" + server.url("data/") + "\",\"bytes\":0}\n");
  const ProcessResult files = millrace({"ls", server.url("data/"), "--limit", "2"}, with);
  EXPECT_THAT(files.out, HasSubstr(server.url("data/set-000000.tar") + "\n"));
  EXPECT_EQ(std::count(files.out.begin(), files.out.end(), '\n'), 2);

  const std::string on_disk =
      without_folders(millrace({"ls", dir / "set-{000000..000002}.tar"}).out, dir.path().string());
  for (const std::string spec : {"data/*.tar", "data/set-00000[0-2].tar"}) {
    const ProcessResult samples = millrace({"ls", server.url(spec)}, with);
    EXPECT_EQ(samples.status, 0) << samples.err;
    EXPECT_EQ(without_folders(samples.out, server.url("data")), on_disk);
  }
  const ProcessResult verified = millrace({"verify", "--json", server.url("data/")}, with);
  EXPECT_EQ(verified.status, 0) << verified.err;
  EXPECT_THAT(verified.out, HasSubstr("\"samples\":30"));
  const ProcessResult none = millrace({"verify", server.url("data/x*")}, with);
  EXPECT_EQ(none.status, 2);
  EXPECT_THAT(none.err, HasSubstr("no object matches " + server.url("data/x*")));
}

INSTANTIATE_TEST_SUITE_P(Real, BucketCommands,
                         ::testing::Values(BucketServer::Kind::kS3, BucketServer::Kind::kGcs),
                         [](const auto& server) {
                           return server.param == BucketServer::Kind::kS3 ? "S3" : "Gcs";
                         });

}  // namespace
}  // namespace millrace::testing
