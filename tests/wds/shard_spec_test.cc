#include "wds/shard_spec.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <optional>

#include "io/base/error.h"
#include "io/detail/files/unique_fd.h"
#include "io/opener.h"
#include "tests/support/code_of.h"
#include "tests/support/nginx.h"
#include "tests/support/tar_builder.h"
#include "tests/support/temp_dir.h"
#include "tests/wds/memory_opener.h"
#include "wds/manifest.h"
#include "wds/shard_reader.h"

namespace millrace::wds {
namespace {

using Strings = std::vector<std::string>;
using testing::code_of;
using testing::MemoryOpener;
using testing::TempDir;
using testing::write_file;

TEST(Braces, ExpandAsInBash) {
  const std::pair<const char*, Strings> table[] = {
      {"x{000..003}", {"x000", "x001", "x002", "x003"}},
      {"{01..3}", {"01", "02", "03"}},
      {"{0..10..5}", {"0", "5", "10"}},
      {"{10..8}", {"10", "9", "8"}},
      {"{-1..1}", {"-1", "0", "1"}},
      {"{-01..1}", {"-01", "000", "001"}},
      {"{a..c}", {"a", "b", "c"}},
      {"{c..a..2}", {"c", "a"}},
      {"{Y..b}", {"Y", "Z", "a", "b"}},
      {"{a,}", {"a", ""}},
      {"{a,b}{1,2}", {"a1", "a2", "b1", "b2"}},
      {"{x,{1..2}y}z", {"xz", "1yz", "2yz"}},
      {"{a}", {"{a}"}},
      {"{}", {"{}"}},
      {"{{1,2}}", {"{1}", "{2}"}},
      {"\\{a\\,b\\}", {"{a,b}"}},
      {"{a\\,b,c}", {"a,b", "c"}},
      {"{1..3..0}", {"1", "2", "3"}},
      {"{a..1}", {"{a..1}"}},
      {"plain", {"plain"}},
  };
  for (const auto& [pattern, expected] : table) EXPECT_EQ(expand_braces(pattern), expected);
}

TEST(Braces, UnbalancedIsAnError) {
  for (const char* pattern : {"{1,2", "1}2", "{1{2,3}", "}{"}) {
    EXPECT_EQ(code_of([&] { expand_braces(pattern); }), ErrorCode::kInvalidArgument) << pattern;
  }
}

TEST(Braces, AFaultShowsNoSecrets) {
  const auto said = [](const std::string& pattern) -> std::string {
    try {
      expand_braces(pattern);
    } catch (const Error& error) {
      return error.message();
    }
    return "nothing";
  };
  EXPECT_EQ(said("http://us:pw@h/d/s-{0..x.tar?sig=SECRET"),
            "unbalanced braces in shard pattern 'http://h/d/s-{0..x.tar'");
  EXPECT_EQ(said("{http://us:pw@h/a,https://us:pw@h/b"),
            "unbalanced braces in shard pattern '{http://h/a,https://h/b'");
}

TEST(Braces, BombsAreRefused) {
  const std::string deep(200'000, '{');
  for (const std::string& pattern :
       {std::string("{0..999999999999}"), std::string("{0..999}{0..999}{0..9}"),
        std::string("{0..99999999999999999999}"), deep + "a" + std::string(200'000, '}'),
        "{0..999999}" + std::string(100'000, 'x')}) {
    EXPECT_EQ(code_of([&] { expand_braces(pattern); }), ErrorCode::kInvalidArgument);
  }
}

TEST(ShardSpec, UnionThenVariablesThenBraces) {
  ShardSpecOptions options;
  options.environment = [](const std::string& name) -> std::optional<std::string> {
    if (name == "WDS_ROOT") return "r/${SUB}";
    if (name == "WDS_SUB") return "s";
    return {};
  };
  EXPECT_EQ(expand_shards("${ROOT}/a{0..1}.tar::b.tar", options),
            (Strings{"r/s/a0.tar", "r/s/a1.tar", "b.tar"}));
  EXPECT_EQ(code_of([&] { expand_shards("${NONE}/a.tar", options); }), ErrorCode::kInvalidArgument);
  EXPECT_EQ(expand_shards("$x{a,b}", options), (Strings{"$xa", "$xb"}));
}

TEST(ShardSpec, AFolderIsItsShardsSorted) {
  const TempDir dir;
  for (const char* name :
       {"b.tar", "a.tar.gz", "a.tar", "a.tar.index.json", "c.txt", ".d.tar", "e.tar.tmp-1"}) {
    write_file(dir / name, "");
  }
  EXPECT_EQ(expand_shards(dir.path().string()),
            (Strings{dir / "a.tar", dir / "a.tar.gz", dir / "b.tar"}));
  const TempDir empty;
  EXPECT_EQ(code_of([&] { expand_shards(empty.path().string()); }), ErrorCode::kInvalidArgument);
}

TEST(ShardSpec, AStoresFolderAndAWildCardAreListed) {
  MemoryOpener opener;
  for (const char* name : {"d/a-1.tar", "d/a-0.tar", "d/a-0.tar.idx", "d/b[0].tar", "d/c.txt",
                           "d/e/a-2.tar", "d/f/a-3.tar.gz", "d/manifest.json"})
    opener.files[std::string("s3://b/") + name] = "";
  const auto expand = [&](const std::string& spec) {
    Strings names;
    for (const std::string& url : expand_shards(spec, {.opener = &opener}))
      names.push_back(url.substr(7));
    return names;
  };
  EXPECT_EQ(expand("s3://b/d/"), (Strings{"d/a-0.tar", "d/a-1.tar", "d/b[0].tar"}));
  EXPECT_EQ(expand("s3://b/d/a-?.tar"), (Strings{"d/a-0.tar", "d/a-1.tar"}));
  EXPECT_EQ(expand("s3://b/d/[!b]*.tar"), (Strings{"d/a-0.tar", "d/a-1.tar"}));
  EXPECT_EQ(expand("s3://b/d/b[[]0].tar"), (Strings{"d/b[0].tar"}));
  EXPECT_EQ(expand("s3://b/d/{e,f}/a-*"), (Strings{"d/e/a-2.tar", "d/f/a-3.tar.gz"}));
  EXPECT_EQ(expand("s3://b/*/*/a-*"), (Strings{"d/e/a-2.tar", "d/f/a-3.tar.gz"}));
  EXPECT_EQ(code_of([&] { expand("s3://b/none/"); }), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of([&] { expand("s3://b/d/x*"); }), ErrorCode::kInvalidArgument);
  EXPECT_EQ(expand_shards("http://h/a*.tar?b", {.opener = &opener}), Strings{"http://h/a*.tar?b"});
  EXPECT_TRUE(expands_over_network("x.tar::s3://b/d/", {.opener = &opener}));
  EXPECT_TRUE(expands_over_network("http://h/m.json", {.opener = &opener}));
  EXPECT_FALSE(expands_over_network("s3://b/{0..3}.tar::m.json", {.opener = &opener}));
}

TEST(ShardSpec, AnAddressOfAUrlIsNoUnion) {
  for (const std::string url : {"http://[::1]:8080/a.tar",
                                "https://user:word@[2001:db8::1]/d/a.tar", "http://[::]/a.tar"}) {
    EXPECT_EQ(expand_shards(url), Strings{url});
    EXPECT_EQ(expand_shards("x.tar::" + url + "::y.tar"), (Strings{"x.tar", url, "y.tar"}));
    EXPECT_EQ(expand_shards(url + "::pipe:cat [::1]"), (Strings{url, "pipe:cat [", "1]"}));
  }
  EXPECT_EQ(expand_shards("http://[::1]/{0..1}.tar"),
            (Strings{"http://[::1]/0.tar", "http://[::1]/1.tar"}));
  EXPECT_EQ(expand_shards("http://h/a[::b]"), (Strings{"http://h/a[", "b]"}));
}

/// A free port of IPv6's loopback; nullopt where there is none.
std::optional<std::uint16_t> free_port_of_ipv6() {
  const io::detail::UniqueFd fd(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_addr = in6addr_loopback;
  socklen_t size = sizeof address;
  const bool bound = fd && ::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), size) == 0 &&
                     ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size) == 0;
  return bound ? std::optional(ntohs(address.sin6_port)) : std::nullopt;
}

TEST(ShardSpec, ShardsAtAnAddressOfIPv6AreRead) {
  if (const auto reason = testing::Nginx::missing()) GTEST_SKIP() << *reason;
  const auto port = free_port_of_ipv6();
  if (!port) GTEST_SKIP() << "this machine has no IPv6 loopback";
  const TempDir dir;
  for (const std::string name : {"a", "b"})
    write_file(dir / (name + ".tar"), testing::TarBuilder().file(name + ".cls", "1").end().bytes());
  const std::string host = "[::1]:" + std::to_string(*port);
  const testing::Nginx nginx(dir.path(), {.server_lines = "listen " + host + ";"});
  const io::UrlOpener opener;
  Strings keys;
  Sample sample;
  for (const std::string& url :
       expand_shards("http://" + host + "/a.tar::http://" + host + "/{b..b}.tar"))
    for (ShardReader reader(opener, url); reader.next(sample);) keys.push_back(sample.key);
  EXPECT_EQ(keys, (Strings{"a", "b"}));
}

TEST(ShardSpec, APathWithAWildCardIsWhatItMatches) {
  const TempDir dir;
  for (const char* folder : {"e", "f"}) std::filesystem::create_directory(dir / folder);
  for (const char* name :
       {"a-1.tar", "a-0.tar", "a-0.tar.index.json", "a-0.tar.idx", "a-manifest.json", "b[0].tar",
        "a-classes.txt", "c.txt", ".a-9.tar", "e/a-2.tar", "f/a-3.tar.gz", "w?.tar"})
    testing::write_file(dir / name, "");
  const auto expand = [&](const std::string& spec) {
    Strings names;
    for (const std::string& path : expand_shards(dir / spec))
      names.push_back(path.substr((dir / "").size()));
    return names;
  };
  EXPECT_EQ(expand("a-*"), (Strings{"a-0.tar", "a-1.tar"})) << "without what is beside them";
  EXPECT_EQ(expand("*.txt"), (Strings{"a-classes.txt", "c.txt"})) << "if nothing is a shard";
  EXPECT_EQ(expand("a-?.tar"), (Strings{"a-0.tar", "a-1.tar"}));
  EXPECT_EQ(expand("[!b]-[01].tar"), (Strings{"a-0.tar", "a-1.tar"}));
  EXPECT_EQ(expand("b[0].tar"), Strings{"b[0].tar"}) << "it is there as it is written";
  EXPECT_EQ(expand("w?.tar"), Strings{"w?.tar"});
  EXPECT_EQ(expand("b[[]0].tar"), Strings{"b[0].tar"});
  EXPECT_EQ(expand("{e,f}/a-*"), (Strings{"e/a-2.tar", "f/a-3.tar.gz"}));
  EXPECT_EQ(expand("[ef]"), (Strings{"e/a-2.tar", "f/a-3.tar.gz"})) << "of folders their shards";
  EXPECT_EQ(expand("*/*.tar*"), (Strings{"e/a-2.tar", "f/a-3.tar.gz"}));
  EXPECT_EQ(code_of([&] { expand("x*"); }), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of([&] { expand("a-*::" + (dir / "a-0.tar")); }), ErrorCode::kInvalidArgument)
      << "twice";
  const std::string url = "file://" + (dir / "a-?.tar");
  EXPECT_EQ(expand_shards(url), (Strings{dir / "a-0.tar", dir / "a-1.tar"}));
}

// What cannot be read may hold shards. A name that is too long is closed to root, too.
TEST(ShardSpec, AFolderThatCannotBeListedIsAFault) {
  const TempDir dir;
  write_file(dir / "a/t.tar", "");
  write_file(dir / "a/t.tmp-1.tar", "");
  write_file(dir / "a/t.tar.tmp-1", "");
  write_file(dir / "file", "");
  EXPECT_EQ(expand_shards(dir / "*/*.tar"), (Strings{dir / "a/t.tar", dir / "a/t.tmp-1.tar"}));
  EXPECT_EQ(code_of([&] { expand_shards(dir / (std::string(300, 'x') + "/*.tar")); }),
            ErrorCode::kIo);
}

TEST(ShardSpec, ATildeIsAHomeFolder) {
  const TempDir dir;
  testing::write_file(dir / "a.tar", "");
  const ShardSpecOptions options{.environment = [&](const std::string& name) {
    return name == "HOME" ? std::optional(dir.path().string()) : std::nullopt;
  }};
  EXPECT_EQ(expand_shards("~/a.tar", options), Strings{dir / "a.tar"});
  EXPECT_EQ(expand_shards("~/*.tar", options), Strings{dir / "a.tar"});
  EXPECT_EQ(expand_shards("~", options), Strings{dir / "a.tar"});
  EXPECT_EQ(expand_shards("~root/x.tar", options), Strings{"/root/x.tar"});
  EXPECT_EQ(expand_shards("~no-such-user/x.tar", options), Strings{"~no-such-user/x.tar"});
  EXPECT_EQ(expand_shards("x~/a.tar", options), Strings{"x~/a.tar"});
}

TEST(ShardSpec, AManifestIsItsShardsBesideIt) {
  MemoryOpener opener;
  opener.files["d/m.json"] =
      R"({"wids_version": 1, "shardlist": [{"url": "a.tar", "nsamples": 3, "filesize": 10},
          {"url": "/abs/b.tar"}, {"url": "http://h/c.tar"}]})";
  EXPECT_EQ(expand_shards("d/m.json", {.opener = &opener}),
            (Strings{"d/a.tar", "/abs/b.tar", "http://h/c.tar"}));
}

TEST(ShardSpec, KeepsWhatAManifestSays) {
  testing::MemoryOpener opener;
  opener.files["d/m.json"] =
      R"({"shardlist": [{"url": "a.tar", "nsamples": 7, "filesize": 512, "sha256": "ab"}]})";
  const std::vector<std::string> specs = {"d/m.json::b.tar"};
  const auto shards = list_shards(specs, {.opener = &opener});
  ASSERT_EQ(shards.size(), 2U);
  EXPECT_EQ(shards[0].url, "d/a.tar");
  EXPECT_EQ(shards[0].samples, 7U);
  EXPECT_EQ(shards[0].bytes, 512U);
  EXPECT_EQ(shards[0].sha256, "ab");
  EXPECT_EQ(shards[1].url, "b.tar");
  EXPECT_FALSE(shards[1].samples.has_value());
}

TEST(ShardSpec, AManifestFromTheNetworkNamesNoLocalFile) {
  MemoryOpener opener;
  for (const char* url : {"/etc/passwd", "file:///etc/passwd", "pipe:rm x", "PIPE:rm x", "-"}) {
    opener.files["http://h/m.json"] =
        R"({"wids_version": 1, "shardlist": [{"url": ")" + std::string(url) + R"("}]})";
    EXPECT_EQ(code_of([&] { expand_shards("http://h/m.json", {.opener = &opener}); }),
              ErrorCode::kCorrupt)
        << url;
  }
  opener.files["http://h/d/m.json?key=1"] = R"({"shardlist": [{"url": "a.tar"}]})";
  EXPECT_EQ(expand_shards("http://h/d/m.json?key=1", {.opener = &opener}),
            Strings{"http://h/d/a.tar"});
}

TEST(ShardSpec, AManifestRunsNoCommand) {
  MemoryOpener opener;
  for (const char* url : {"pipe:rm x", "PIPE:rm x", "-"}) {
    opener.files["m.json"] = R"({"shardlist": [{"url": ")" + std::string(url) + R"("}]})";
    EXPECT_EQ(code_of([&] { expand_shards("m.json", {.opener = &opener}); }), ErrorCode::kCorrupt)
        << url;
  }
}

TEST(ShardSpec, ADamagedManifestIsCorrupt) {
  MemoryOpener opener;
  for (const char* text : {"", "[]", "{}", R"({"shardlist": 1})", R"({"shardlist": [1]})",
                           R"({"shardlist": [{"url": "a", "nsamples": -1}]})"}) {
    opener.files["m.json"] = text;
    EXPECT_EQ(code_of([&] { expand_shards("m.json", {.opener = &opener}); }), ErrorCode::kCorrupt)
        << text;
  }
}

TEST(ShardSpec, RefusesDuplicatesUnlessAllowed) {
  EXPECT_EQ(code_of([] { expand_shards("a.tar::a.tar"); }), ErrorCode::kInvalidArgument);
  EXPECT_EQ(expand_shards("a.tar::a.tar", {.allow_duplicates = true}).size(), 2U);
  EXPECT_EQ(code_of([] { expand_shards(""); }), ErrorCode::kInvalidArgument);
}

TEST(ShardSpec, OneFileByTwoNamesIsADuplicate) {
  const TempDir dir;
  write_file(dir / "w/a.tar", "");
  write_file(dir / "w/b.parquet", "");
  const std::string a = dir / "w/a.tar";
  for (const std::string& spec :
       {a + "::" + (dir / "w/./a.tar"), a + "::" + (dir / "w/../w/a.tar"), a + "::file://" + a,
        std::string("http://h/w/a.tar::http://h/w/./a.tar"), std::string("no/a.tar::no/./a.tar")})
    EXPECT_EQ(code_of([&] { expand_shards(spec); }), ErrorCode::kInvalidArgument) << spec;
  EXPECT_EQ(expand_shards(a + "::" + (dir / "w/./a.tar"), {.allow_duplicates = true}).size(), 2U);
  EXPECT_EQ(expand_shards("http://h/a.tar::http://h/a.tar?version=2").size(), 2U);
  EXPECT_EQ(expand_shards("s3://b/w/a.tar::s3://b/w/./a.tar").size(), 2U) << "keys are any text";
  const std::string b = dir / "w/b.parquet";
  EXPECT_EQ(expand_shards(b + "#image=x::" + b + "#image=y").size(), 2U) << "other samples";
  std::filesystem::create_symlink(a, dir / "w/link.tar");
  EXPECT_EQ(code_of([&] { expand_shards(dir / "w/*.tar"); }), ErrorCode::kInvalidArgument);
}

TEST(ShardSpec, FindsMissingLocalShardsBeforeWork) {
  const TempDir dir;
  write_file(dir / "x#1.tar", "");
  write_file(dir / "a b.tar", "");
  EXPECT_NO_THROW(check_local_shards(Strings{dir / "x#1.tar", "http://h/a.tar", "-", "pipe:x"}));
  EXPECT_NO_THROW(check_local_shards(Strings{"file://" + (dir / "a%20b.tar")}));
  EXPECT_EQ(code_of([&] { check_local_shards(Strings{dir / "no.tar"}); }), ErrorCode::kNotFound);
}

TEST(Manifest, ReadsBackWhatItWrote) {
  const TempDir dir;
  Manifest manifest{.name = "set",
                    .shards = {{.url = dir / "a.tar",
                                .samples = 3,
                                .bytes = 10240,
                                .sha256 = std::string(64, 'f')},
                               {.url = "http://h/b.tar"}},
                    .pictures = {.jpeg = "restarts", .image = "raw(share=0.5)"}};
  write_manifest(manifest, dir / "m.json");
  const Manifest back = read_manifest(io::UrlOpener(), dir / "m.json");
  ASSERT_EQ(back.shards.size(), 2U);
  EXPECT_EQ(back.name, "set");
  EXPECT_EQ(back.pictures, manifest.pictures);
  EXPECT_EQ(back.shards[1].pictures, manifest.pictures);
  EXPECT_EQ(back.shards[0].url, dir / "a.tar");
  EXPECT_EQ(back.shards[0].samples, 3U);
  EXPECT_EQ(back.shards[0].bytes, 10240U);
  EXPECT_EQ(back.shards[1].url, "http://h/b.tar");
  EXPECT_NE(testing::read_file(dir / "m.json").find("\"url\": \"a.tar\""), std::string::npos);
}

}  // namespace
}  // namespace millrace::wds
