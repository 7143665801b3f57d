import assert from "node:assert/strict";
import { test } from "node:test";
import {
    enter_address,
    hash_of_app,
    hash_of_provider,
    place_of_search,
    route_of_hash,
    setup_code_of_hash,
} from "../src/routes.ts";

const ID = "01kzv3h8m4c9t0q2w5x7y8z9ab";

test("places are found and everything else is none", () => {
    assert.deepEqual(route_of_hash(""), { page: "home" });
    assert.deepEqual(route_of_hash("#/"), { page: "home" });
    assert.deepEqual(route_of_hash("#/settings"), { page: "settings", provider: "" });
    assert.deepEqual(route_of_hash(hash_of_provider("minimax-cn")), {
        page: "settings",
        provider: "minimax-cn",
    });
    assert.deepEqual(route_of_hash("#/usage"), { page: "usage", part: "" });
    assert.deepEqual(route_of_hash("#/usage/budgets"), { page: "usage", part: "budgets" });
    assert.deepEqual(route_of_hash(hash_of_app(ID)), { page: "app", app_id: ID });
    for (const bad of [
        "#/apps/",
        "#/apps/x",
        "#/apps/../settings",
        `#/apps/${ID}/`,
        `#/apps/${ID.toUpperCase()}`,
        `#/apps/8${ID.slice(1)}`,
        "#main",
        "#/settings/",
        "#/settings/a/b",
        `#/settings/${"a".repeat(33)}`,
        "#/settings/%61",
        "#/usage/money",
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

test("a place in a preview comes back from the address that names it", () => {
    const place = { sandbox_id: ID, port: 3000, path: "/a/b?c=%2F&d=e" };
    const search = enter_address(place).replace("/enter", "");
    assert.deepEqual(place_of_search(search), place);
    assert.deepEqual(place_of_search(`?sandbox=${ID}&port=1&to=/`), {
        sandbox_id: ID,
        port: 1,
        path: "/",
    });
});

test("what names no place of ours is none", () => {
    const bad = [
        "",
        `?sandbox=${ID}&port=3000`,
        `?sandbox=${ID}&to=/`,
        `?port=3000&to=/`,
        `?sandbox=${ID.toUpperCase()}&port=3000&to=/`,
        `?sandbox=${ID}x&port=3000&to=/`,
        `?sandbox=${ID}&port=0&to=/`,
        `?sandbox=${ID}&port=65536&to=/`,
        `?sandbox=${ID}&port=3000.evil.com&to=/`,
        `?sandbox=${ID}&port=03000&to=/`,
        `?sandbox=${ID}&port=3000&to=`,
        `?sandbox=${ID}&port=3000&to=//evil.com`,
        `?sandbox=${ID}&port=3000&to=%2F%2Fevil.com`,
        `?sandbox=${ID}&port=3000&to=/%5Cevil.com`,
        `?sandbox=${ID}&port=3000&to=http://evil.com/`,
        `?sandbox=${ID}&port=3000&to=/a%0D%0Ab`,
        `?sandbox=${ID}&port=3000&to=/a+b`,
        `?sandbox=${ID}&port=3000&to=/a%23b`,
        `?sandbox=${ID}&port=3000&to=/.sandboxd/enter`,
        `?sandbox=${ID}&sandbox=${ID}&port=3000&to=/`,
        `?sandbox=${ID}&port=3000&to=/&to=/`,
        `?sandbox=${ID}&port=3000&to=/${"a".repeat(2048)}`,
    ];
    for (const search of bad) {
        assert.equal(place_of_search(search), null, search);
    }
});
