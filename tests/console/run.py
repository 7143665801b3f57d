"""The console's browser tests against whole stacks, one per layout: `npm test` in this folder.

  localhost   console.localhost and *.preview.localhost, plain HTTP: different sites to a browser
  domain      console.<domain> and *.preview.<domain> behind somebody's TLS proxy: the same site,
              where SameSite protects nothing

    python3 run.py [--layout NAME] [arguments of playwright test]
"""

import os
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT))

from tests.console.tls import TlsProxy  # noqa: E402
from tests.integration import harness  # noqa: E402
from tests.integration.conftest import Apps  # noqa: E402
from tests.integration.edge import Edge  # noqa: E402
from tests.integration.programs import SANITISER_ENV  # noqa: E402
from tests.stubs.model_server import ModelServer  # noqa: E402
from tests.stubs.oauth_server import OAuthServer  # noqa: E402

DOMAIN = "sandboxd.test"
SETUP_CODE = re.compile(r"#setup=([A-Za-z0-9_-]+)")
BROWSER_SECONDS_MAX = 3600
# The domain layout repeats what depends on addresses: the door, every refusal, every kind of mutation.
LAYOUTS = {
    "localhost": ({}, []),
    "domain": (
        {"PREVIEW_DOMAIN": DOMAIN, "PREVIEW_TLS": "true"},
        ["--project=refusals", "--project=access", "--project=providers"],
    ),
}


def setup_code(stack):
    """The one-time code, as the owner gets it on the server."""
    done = subprocess.run(
        [stack.programs_dir / "sandboxd", "console-code"],
        env={"PATH": os.environ["PATH"], **SANITISER_ENV, **stack.settings},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    found = SETUP_CODE.search(done.stdout)
    assert done.returncode == 0 and found, f"console-code: {done.returncode} {done.stdout} {done.stderr}"
    return found.group(1)


def settings_of(login):
    """OpenRouter's place is taken by a server that judges keys, the login with a subscription by a scripted one."""
    return {
        "SANDBOXD_PROVIDER_OPENROUTER_BASE_URL": login.base_url,
        "SANDBOXD_CLAUDE_TOKEN_URL": login.token_url,
        "SANDBOXD_CLAUDE_AUTHORIZE_URL": login.authorize_url,
    }


def browser(stack, login, address, port, arguments):
    """Runs Playwright; address makes an URL of a host name without its port."""
    attacker = Apps(stack).server(source="echo.js")
    private = Apps(stack).server(source="echo.js")
    domain = stack.settings.get("PREVIEW_DOMAIN", "localhost")
    good_key = stack.secret("sk-good-")
    login.keep, login.good_keys, login.refusal = stack.keep, {good_key}, "this key was revoked last week"
    environment = {
        **os.environ,
        "CONSOLE_URL": address(f"console.{domain}", port),
        "CONSOLE_PREVIEW_URL": address(f"s-{attacker['id']}-3000.preview.{domain}", port),
        "CONSOLE_PRIVATE_URL": address(f"s-{private['id']}-3000.preview.{domain}", port),
        "CONSOLE_HOST_RULES": f"MAP *.{DOMAIN} 127.0.0.1",
        "CONSOLE_SETUP_CODE": setup_code(stack),
        "API_URL": stack.api.base,
        "API_TOKEN": stack.token,
        "GOOD_KEY": good_key,
        "LOGIN_URL": login.base_url,
        "MODEL_URL": stack.model.base_url,
    }
    command = ["npx", "--no-install", "playwright", "test", *arguments]
    return subprocess.run(command, cwd=HERE, env=environment, timeout=BROWSER_SECONDS_MAX, check=False).returncode


def run_layout(name, arguments):
    settings, selection = LAYOUTS[name]
    print(f"== console, layout {name}", flush=True)
    with (
        ModelServer() as model,
        OAuthServer() as login,
        harness.Stack(model=model, settings={**settings_of(login), **settings}) as stack,
    ):
        with Edge(stack):
            if name == "localhost":
                status = browser(stack, login, lambda host, port: f"http://{host}:{port}", stack.http_port, arguments)
            else:
                with TlsProxy(stack.http_port, [f"*.{DOMAIN}", f"*.preview.{DOMAIN}"]) as proxy:
                    status = browser(
                        stack, login, lambda host, port: f"https://{host}:{port}", proxy.port, [*selection, *arguments]
                    )
        if status != 0:
            print(stack.tails(), flush=True)
    return status


def main(arguments):
    layouts = list(LAYOUTS)
    if arguments[:1] == ["--layout"]:
        layouts, arguments = [arguments[1]], arguments[2:]
    harness.TEST_DIR.mkdir(parents=True, exist_ok=True)
    harness.sweep()
    return max(run_layout(name, arguments) for name in layouts)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
