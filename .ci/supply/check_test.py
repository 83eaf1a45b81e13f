"""That the checks find what they are for."""

import unittest

import check

SUM = "sha512-" + "A" * 86 + "=="
HASH = "--hash=sha256:" + "0" * 64


class Supply(unittest.TestCase):
    def finds(self, found, expected):
        self.assertIn(expected, " / ".join(found))

    def test_a_package_without_a_sum_or_from_elsewhere(self):
        lock = lambda package: check.of_npm_lock({"packages": {"": {}, "packages/own": {}, "node_modules/a": package}})
        self.assertEqual(list(lock({"integrity": SUM})), [])
        self.assertEqual(list(lock({"link": True, "resolved": "packages/own"})), [])
        self.finds(lock({}), "no SHA-512")
        self.finds(lock({"integrity": "sha1-AAAA"}), "no SHA-512")
        self.finds(lock({"integrity": SUM, "resolved": "git+ssh://example.com/a.git"}), "from a place of its own")

    def test_a_version_that_moves(self):
        manifest = lambda version: check.of_npm_manifest({"devDependencies": {"a": version}})
        for exact in ("1.2.3", "1.2.3-rc.1", "npm:@a/b@1.2.3", "file:../../sdk/packages/web", "$typescript"):
            self.assertEqual(list(manifest(exact)), [])
        for moving in ("^1.2.3", "~1.2.3", "npm:b@^1.2.3", "1", "*", "latest", "git+https://example.com/a", "https://example.com/a.tgz"):
            self.finds(manifest(moving), "may become another one")

    def test_a_requirement_without_a_hash(self):
        self.assertEqual(list(check.of_requirements(f"a==1.0 \\\n    {HASH} \\\n    {HASH}\nb.c==2 \\\n    {HASH}\n")), [])
        for loose in ("a==1.0\n", f"a>=1.0 \\\n    {HASH}\n", f"a \\\n    {HASH}\n", "-r other.txt\n"):
            self.finds(check.of_requirements(loose), "no version or no SHA-256")

    def test_a_command_that_runs_what_it_fetches(self):
        for sound in (
            "npm install --no-save --ignore-scripts",
            "npm('install', '--ignore-scripts');",
            "npm run build",
            "npx --no-install oxlint",
            "# npm install",
            "has npm, install it",
            '"$home/bin/pip" install --quiet --require-hashes --only-binary :all: --requirement $r',
        ):
            self.assertEqual(list(check.of_script(sound)), [], sound)
        for unsound in ("npm install", "npm ci --no-audit", "npm('install');", "npx serve", "pip install a", '"$home/bin/pip" install a'):
            self.assertNotEqual(list(check.of_script(unsound)), [], unsound)

    def test_an_image_of_any_version(self):
        sound = "ARG NODE_IMAGE=node:22.20.0\nFROM ${NODE_IMAGE} AS base\nFROM base AS gateway\n  image: ${NATS_IMAGE:-nats:2.12.1}\n  image: ${OF_OURS:-rekindle}/gateway:${ITS_TAG:-local}\n"
        self.assertEqual(list(check.of_images(sound)), [])
        for image in ("FROM node", "FROM node:latest", "  image: redis", "  image: ${NATS_IMAGE:-nats}", "ARG RUN_IMAGE=debian"):
            self.finds(check.of_images(image), "no tag of its own")


if __name__ == "__main__":
    unittest.main()
