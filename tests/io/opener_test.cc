#include "io/opener.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "io/base/error.h"
#include "io/local_path.h"
#include "io/same_file.h"
#include "tests/support/temp_dir.h"

namespace millrace::io {
namespace {

using testing::TempDir;

TEST(UrlOpener, AnUnknownSchemeIsNamed) {
  try {
    UrlOpener().open("hdfs://cluster/a.tar?token=secret");
    FAIL() << "opened";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_THAT(error.what(), ::testing::HasSubstr("hdfs:"));
    EXPECT_THAT(error.what(), ::testing::Not(::testing::HasSubstr("secret")));
  }
}

TEST(UrlOpener, AColonAloneIsNotAScheme) {
  const TempDir dir;
  for (const std::string name : {"a:b.tar", "http:x", "x#1.tar", "what?.tar", "a%20b"}) {
    testing::write_file(dir / name, name);
    EXPECT_EQ(read_object(UrlOpener(), dir / name, 100).text(), name);
    EXPECT_EQ(UrlOpener().open(dir / name)->url(), dir / name);
  }
}

TEST(UrlOpener, FileUrlsNameLocalFilesOnly) {
  const TempDir dir;
  testing::write_file(dir / "a b", "hello");
  const std::string path = dir / "a%20b";
  EXPECT_EQ(read_object(UrlOpener(), "file://" + path, 100).text(), "hello");
  EXPECT_EQ(read_object(UrlOpener(), "FILE://localhost" + path, 100).text(), "hello");
  EXPECT_EQ(read_object(UrlOpener(), "file:" + path, 100).text(), "hello");
  EXPECT_THROW(UrlOpener().open("file://otherhost" + path), Error);
  EXPECT_THROW(UrlOpener().open("file:///etc/passwd%00.tar"), Error);
}

TEST(UrlOpener, AFolderIsNotAFile) {
  const TempDir dir;
  EXPECT_THROW(UrlOpener().open(dir.path().string()), Error);
}

TEST(UrlOpener, AnInvalidUrlIsAnInvalidArgument) {
  for (const std::string url : {"http://", "http://host:99999/a", "http://a b/"}) {
    try {
      read_object(UrlOpener(), url, 100);
      FAIL() << url;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument) << error.what();
    }
  }
}

TEST(UrlOpener, AUsersOwnStoreIsOneEntry) {
  const TempDir dir;
  testing::write_file(dir / "a.tar", "hello");
  const Store store{
      .scheme = "az",
      .open =
          [&](const std::string& url, const OpenOptions& options) {
            return UrlOpener().open(dir / url.substr(5), options);
          },
      .create =
          [&](const std::string& url, const FileSinkOptions& options, const std::stop_token&) {
            return open_file_sink(dir / url.substr(5), options);
          }};
  const UrlOpener opener({.stores = {store, {.scheme = "gs", .open = store.open}}});
  EXPECT_EQ(read_object(opener, "az://a.tar", 100).text(), "hello");
  EXPECT_EQ(read_object(opener, "AZ://a.tar", 100).text(), "hello");
  EXPECT_EQ(read_object(opener, "gs://a.tar", 100).text(), "hello") << "in the built-in's place";
  const auto sink = opener.open_sink("az://b.tar");
  sink->write(std::as_bytes(std::span("x", 1)));
  sink->finish();
  EXPECT_EQ(testing::read_file(dir / "b.tar"), "x");
  EXPECT_THROW(opener.open_sink("gs://b.tar"), Error) << "reads alone";
  EXPECT_TRUE(is_network_url("az://a.tar"));
  EXPECT_FALSE(is_network_url("file:///a.tar"));
  EXPECT_FALSE(is_network_url("pipe:cat a.tar"));
  try {
    opener.open("hdfs://a.tar");
    FAIL() << "opened";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(),
                ::testing::HasSubstr("az, gs, file, pipe, http, https, s3, hf are known"));
  }
}

TEST(LocalPath, AUrlIsNotOne) {
  for (const std::string url : {"gs://bucket/x", "file:///x", "http://host/x", "pipe:x"})
    EXPECT_THROW(check_local_path(url), Error) << url;
  for (const std::string path : {"x", "a:b", "/x/y", "http:x", ""})
    EXPECT_NO_THROW(check_local_path(path)) << path;
}

TEST(LocalPath, IsWhatAFileUrlNames) {
  EXPECT_EQ(local_path("a b%20?#.tar"), "a b%20?#.tar");
  EXPECT_EQ(local_path("file:///x/a%20b.tar"), "/x/a b.tar");
  EXPECT_EQ(local_path("FILE://localhost/x"), "/x");
  EXPECT_EQ(local_path("file:x"), "x");
  for (const std::string url : {"-", "pipe:cat a", "https://host/a", "az://a/b"})
    EXPECT_EQ(local_path(url), std::nullopt) << url;
  EXPECT_THROW(local_path("file://otherhost/x"), Error);
}

TEST(StreamUrl, IsStandardInputOrAPipe) {
  for (const std::string url : {"-", "pipe:cat a.tar", "PIPE:cat a.tar"})
    EXPECT_TRUE(is_stream_url(url)) << url;
  for (const std::string url : {"-x", "./-", "pipeline/a.tar", "file:a.tar", "http://host/-"})
    EXPECT_FALSE(is_stream_url(url)) << url;
}

TEST(PrintableUrl, HidesWhatMayBeSecret) {
  EXPECT_EQ(printable_url("https://user:pass@host:1/a.tar?sig=x#y"), "https://host:1/a.tar");
  EXPECT_EQ(printable_url("https://host/a@b.tar"), "https://host/a@b.tar");
  EXPECT_EQ(printable_url("/data/a?b#c@d.tar"), "/data/a?b#c@d.tar");
  EXPECT_EQ(printable_url("s3://bucket/key?a#b@c"), "s3://bucket/key?a#b@c") << "all of a key";
}

TEST(FileIdentity, IsOneForAllSpellingsOfAUrl) {
  const std::string plain = "http://h/d/a-1.tar";
  for (const char* url :
       {"HTTP://h/d/a-1.tar", "http://H/d/a-1.tar", "http://h:80/d/a-1.tar", "http://h/d/a%2D1.tar",
        "http://h/d/a-1.tar#x", "http://h/d//a-1.tar", "http://h/e/../d/./a-1.tar"})
    EXPECT_EQ(file_identity(url), file_identity(plain)) << url;
  for (const char* url : {"https://h/d/a-1.tar", "http://h:81/d/a-1.tar", "http://h/D/a-1.tar",
                          "http://h/d%2Fa-1.tar", "http://h/d/a-1.tar?x"})
    EXPECT_NE(file_identity(url), file_identity(plain)) << url;
  EXPECT_EQ(file_identity("http://h/a?x=%2d%c3"), file_identity("http://h/a?x=-%C3"));
  EXPECT_EQ(file_identity("S3://b/k"), file_identity("s3://b/k"));
  EXPECT_NE(file_identity("s3://b/d//k"), file_identity("s3://b/d/k")) << "a key is any text";
  EXPECT_NE(file_identity("s3://b/k#x"), file_identity("s3://b/k"));
  EXPECT_EQ(file_identity("hf://datasets/o/n@main/k"), file_identity("hf://datasets/o/n/k"));
  EXPECT_NE(file_identity("hf://datasets/o/n/d@main/k"), file_identity("hf://datasets/o/n/d/k"));
}

}  // namespace
}  // namespace millrace::io
