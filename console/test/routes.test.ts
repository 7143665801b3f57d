import assert from "node:assert/strict";
import { test } from "node:test";
import { hash_of_app, route_of_hash, setup_code_of_hash } from "../src/routes.ts";

const ID = "01kzv3h8m4c9t0q2w5x7y8z9ab";

test("places are found and everything else is none", () => {
    assert.deepEqual(route_of_hash(""), { page: "home" });
    assert.deepEqual(route_of_hash("#/"), { page: "home" });
    assert.deepEqual(route_of_hash("#/settings"), { page: "settings" });
    assert.deepEqual(route_of_hash(hash_of_app(ID)), { page: "app", app_id: ID });
    for (const bad of [
        "#/apps/",
        "#/apps/x",
        "#/apps/../settings",
        `#/apps/${ID}/`,
        `#/apps/${ID.toUpperCase()}`,
        `#/apps/8${ID.slice(1)}`,
        "#main",
    ]) {
        assert.equal(route_of_hash(bad), null, bad);
    }
});

test("a one-time code is read from the fragment", () => {
    assert.equal(setup_code_of_hash("#setup=abc-DEF_1"), "abc-DEF_1");
    assert.equal(setup_code_of_hash("#setup=a%2Bb"), "a+b");
    assert.equal(setup_code_of_hash("#setup=%zz"), null);
    assert.equal(setup_code_of_hash("#setup="), null);
    assert.equal(setup_code_of_hash("#/setup=abc"), null);
    assert.equal(setup_code_of_hash(`#setup=${"a".repeat(300)}`), null);
});
