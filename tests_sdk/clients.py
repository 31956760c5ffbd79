"""One call of each real web client, its own retries switched off; `@client` tells it the answer."""

from __future__ import annotations

import asyncio
import json
import urllib.request
from collections.abc import Mapping
from typing import Any

import aiohttp
import anthropic
import boto3
import cohere
import elasticsearch
import github
import groq
import httpx
import httpx2
import kubernetes.client
import litellm
import minio
import openai
import opensearchpy
import python_http_client
import requests
import slack_sdk
import stripe
import telegram
import urllib3
import websockets.sync.client
from azure.storage.blob import BlobClient
from botocore import UNSIGNED
from botocore.config import Config
from google import genai
from google.api_core.client_options import ClientOptions
from google.auth.credentials import AnonymousCredentials
from google.cloud import bigquery, storage
from huggingface_hub import HfApi
from loopback import Ask, client
from mistralai.client import Mistral
from twilio.http.http_client import TwilioHttpClient
from twilio.rest import Client as Twilio

SOON = 0.3
ASKED: list[Any] = [{"role": "user", "content": "hi"}]


@client
def openai_chat(url: str) -> object:
    chat = openai.OpenAI(base_url=url, api_key="sk-x", max_retries=0, timeout=SOON).chat
    return chat.completions.create(model="gpt-5", messages=ASKED)


@client
def openai_stream(url: str) -> object:
    chat = openai.OpenAI(base_url=url, api_key="sk-x", max_retries=0).chat
    return list(chat.completions.create(model="gpt-5", messages=ASKED, stream=True))


@client
def azure_openai_chat(url: str) -> object:
    azure = openai.AzureOpenAI(
        azure_endpoint=url, api_key="x", api_version="2024-10-21", max_retries=0
    )
    return azure.chat.completions.create(model="gpt-5", messages=ASKED)


@client
def claude(url: str) -> object:
    chat = anthropic.Anthropic(base_url=url, api_key="x", max_retries=0, timeout=SOON)
    return chat.messages.create(model="claude-x", max_tokens=9, messages=ASKED)


@client
def claude_stream(url: str) -> object:
    chat = anthropic.Anthropic(base_url=url, api_key="x", max_retries=0)
    return list(chat.messages.create(model="claude-x", max_tokens=9, messages=ASKED, stream=True))


@client
def litellm_openai(url: str) -> object:
    litellm.suppress_debug_info = True
    return litellm.completion(
        model="openai/gpt-x", messages=ASKED, api_base=url, api_key="x", max_retries=0, timeout=SOON
    )


@client
def litellm_claude(url: str) -> object:
    litellm.suppress_debug_info = True
    return litellm.completion(
        model="anthropic/claude-x", messages=ASKED, api_base=url, api_key="x", max_retries=0
    )


@client
def groq_chat(url: str) -> object:
    chat = groq.Groq(base_url=url, api_key="x", max_retries=0).chat
    return chat.completions.create(model="llama", messages=ASKED)


@client
def gemini(url: str) -> object:
    options = genai.types.HttpOptions(base_url=url)
    chat = genai.Client(api_key="x", http_options=options)
    return chat.models.generate_content(model="gemini-x", contents="hi")


@client
def cohere_chat(url: str) -> object:
    chat = cohere.ClientV2(api_key="x", base_url=url, max_retries=0)
    return chat.chat(model="command", messages=ASKED)


@client
def mistral(url: str) -> object:
    return Mistral(api_key="x", server_url=url).chat.complete(model="m", messages=ASKED)


@client
def hugging(url: str) -> object:
    return HfApi(endpoint=url, token="hf_x").model_info("a/b")


@client
def httpx_get(url: str) -> object:
    return httpx.get(url, timeout=SOON).raise_for_status()


@client
def httpx2_get(url: str) -> object:
    return httpx2.get(url, timeout=SOON).raise_for_status()


@client
def requests_get(url: str) -> object:
    return requests.get(url, timeout=SOON).raise_for_status()


@client
def requests_json(url: str) -> object:
    return requests.get(url, timeout=SOON).json()


@client
def urllib3_get(url: str) -> object:
    return urllib3.PoolManager(retries=False, timeout=SOON).request("GET", url)


@client
def urllib_get(url: str) -> object:
    return urllib.request.urlopen(url, timeout=SOON).read()


async def _aiohttp(url: str, *, read: bool = False) -> object:
    limit = aiohttp.ClientTimeout(total=SOON)
    async with aiohttp.ClientSession(timeout=limit) as session, session.get(url) as answer:
        answer.raise_for_status()
        return await (answer.json() if read else answer.text())


@client
def aiohttp_get(url: str) -> object:
    return asyncio.run(_aiohttp(url))


@client
def aiohttp_json(url: str) -> object:
    return asyncio.run(_aiohttp(url, read=True))


@client
def websocket(url: str) -> object:
    return websockets.sync.client.connect(url.replace("http", "ws"), proxy=None)


def aws(
    service: str, operation: str, status: int, code: str, headers: Mapping[str, str] | None = None
) -> Ask:
    """What AWS answers: XML from S3 and the older services, JSON from the others."""

    @client
    def call(url: str) -> object:
        return aws_call(url, service, operation)

    if service == "s3":
        return call(status, f"<Error><Code>{code}</Code><Message>no</Message></Error>", headers)
    if service == "ec2":
        error = f"<Error><Code>{code}</Code><Message>no</Message></Error>"
        return call(status, f"<Response><Errors>{error}</Errors></Response>", headers)
    named = {"x-amzn-errortype": code, **(headers or {})}
    return call(status, {"__type": f"com.amazonaws#{code}", "message": "no"}, named)


AWS_CALLS: dict[str, dict[str, Any]] = {
    "get_object": {"Bucket": "b", "Key": "k"},
    "head_object": {"Bucket": "b", "Key": "k"},
    "get_item": {"TableName": "t", "Key": {"id": {"S": "1"}}},
    "put_item": {"TableName": "t", "Item": {"id": {"S": "1"}}},
    "send_message": {"QueueUrl": "http://q", "MessageBody": "x"},
    "invoke": {"FunctionName": "f"},
    "run_instances": {"MinCount": 1, "MaxCount": 1},
    "get_secret_value": {"SecretId": "s"},
    "invoke_model": {"modelId": "m", "body": b"{}"},
    "get_records": {"ShardIterator": "i"},
    "put_record": {"StreamName": "s", "Data": b"x", "PartitionKey": "p"},
    "send_email": {
        "Source": "a@b",
        "Destination": {},
        "Message": {"Subject": {"Data": "x"}, "Body": {}},
    },
}


def aws_call(url: str, service: str, operation: str, **extra: Any) -> object:
    settings = Config(
        retries={"total_max_attempts": 1},
        connect_timeout=SOON,
        read_timeout=SOON,
        signature_version=UNSIGNED,
    )
    made = boto3.client(service, endpoint_url=url, region_name="eu-west-1", config=settings)
    return getattr(made, operation)(**{**AWS_CALLS.get(operation, {}), **extra})


def aws_signed(url: str) -> object:
    """Call without credentials."""
    made = boto3.client("s3", endpoint_url=url, region_name="eu-west-1")
    return made.get_object(Bucket="b", Key="k")


def aws_nowhere() -> object:
    """Make a client that was told no region."""
    return boto3.client("dynamodb")


@client
def s3_read(url: str) -> object:
    return aws_call(url, "s3", "get_object")


def google_error(status: int, reason: str) -> tuple[int, dict[str, object]]:
    """The JSON error that Google's older APIs answer."""
    error = {"domain": "global", "reason": reason, "message": "no"}
    return status, {"error": {"code": status, "message": "no", "errors": [error]}}


def google_storage(status: int, reason: str, headers: Mapping[str, str] | None = None) -> Ask:
    @client
    def call(url: str) -> object:
        made = storage.Client(
            project="p",
            credentials=AnonymousCredentials(),
            client_options=ClientOptions(api_endpoint=url),
        )
        return made.get_bucket("b", retry=None)

    return call(*google_error(status, reason), headers)


def google_query(status: int, reason: str) -> Ask:
    @client
    def call(url: str) -> object:
        made = bigquery.Client(
            project="p",
            credentials=AnonymousCredentials(),
            client_options=ClientOptions(api_endpoint=url),
        )
        return made.query("SELECT 1", retry=None, job_retry=None)

    return call(*google_error(status, reason))


@client
def azure_blob(url: str) -> object:
    blob = BlobClient(url, "c", "b", retry_total=0, connection_timeout=SOON, read_timeout=SOON)
    return blob.get_blob_properties()


@client
def kubernetes_pods(url: str) -> object:
    settings = kubernetes.client.Configuration(host=url)
    settings.retries = False
    api = kubernetes.client.ApiClient(settings)
    return kubernetes.client.CoreV1Api(api).read_namespaced_pod("p", "n")


@client
def minio_get(url: str) -> object:
    pool = urllib3.PoolManager(retries=False, timeout=SOON)
    made = minio.Minio(
        url.removeprefix("http://"), "k", "s", secure=False, region="r", http_client=pool
    )
    return made.get_object("bucket", "k")


@client
def git_hub(url: str) -> object:
    made = github.Github(base_url=url, retry=None, seconds_between_requests=None)
    return made.get_repo("a/b")


@client
def slack(url: str) -> object:
    return slack_sdk.WebClient(
        token="xoxb-x", base_url=f"{url}/", retry_handlers=[]
    ).chat_postMessage(channel="c", text="t")


def slack_says(error: str, status: int = 200, headers: Mapping[str, str] | None = None) -> Ask:
    return slack(status, {"ok": False, "error": error}, headers)


@client
def stripe_charge(url: str) -> object:
    made = stripe.StripeClient("sk_test_x", base_addresses={"api": url}, max_network_retries=0)
    return made.v1.charges.retrieve("ch_1")


@client
def telegram_me(url: str) -> object:
    return asyncio.run(_telegram(url))


async def _telegram(url: str) -> object:
    async with telegram.Bot("1:x", base_url=f"{url}/bot") as bot:
        return await bot.get_me()


class _ToLoopback(TwilioHttpClient):
    """Twilio's own client, with its one host replaced."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self.url = url

    def request(self, method: str, url: str, *args: Any, **more: Any) -> Any:
        return super().request(method, f"{self.url}/{url.split('/', 3)[3]}", *args, **more)


@client
def twilio_send(url: str) -> object:
    return Twilio("AC1", "t", http_client=_ToLoopback(url)).messages.create(to="1", from_="2")


@client
def sendgrid_send(url: str) -> object:
    return python_http_client.Client(host=url).mail.send.post(request_body={})


@client
def elastic_get(url: str) -> object:
    return elasticsearch.Elasticsearch(url, max_retries=0, request_timeout=SOON).get(
        index="i", id="1"
    )


def elastic_says(status: int, kind: str) -> Ask:
    body = {"error": {"type": kind, "reason": "no"}, "status": status}
    return elastic_get(status, json.dumps(body), {"x-elastic-product": "Elasticsearch"})


@client
def opensearch_get(url: str) -> object:
    return opensearchpy.OpenSearch(url, max_retries=0, timeout=SOON).get(index="i", id="1")
